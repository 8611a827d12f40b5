"""Checks that includes point down and in no circle, that third-party headers stop at one file each, and that the environment is read in one place.

usage: include_direction.py ROOT
"""

import itertools
import pathlib
import re
import sys
from collections.abc import Iterator

import sources

# What each folder may include besides itself. tests/ and examples/ may include everything.
BELOW = {
    "core": set(),
    "compiler": {"core"},
    "runtime": {"core"},
    "autotune": {"core"},
    "ops": {"core", "compiler"},
    "registry": {"core", "compiler", "runtime", "ops", "autotune"},
    "offload": {"core", "runtime", "ops", "registry"},
    "cli": {"core", "compiler", "runtime", "ops", "autotune", "registry", "offload"},
    "python": {"core", "compiler", "runtime", "ops", "autotune", "registry", "offload"},
}
# The floors of a folder: its sub-folders, and what each may include besides itself. Files that lie in the folder itself are on the floor ".".
FLOORS: dict[str, dict[str, set[str]]] = {
    "registry": {
        "plan": set(),
        "dispatch": {"plan"},
        "tuning": {"plan", "dispatch"},
        "profiling": {"plan"},
        "inspection": {"plan", "dispatch", "tuning", "profiling"},
        "user_ops": {"plan"},
        ".": {"plan", "dispatch", "tuning", "profiling", "inspection", "user_ops"},
    },
    # backend.hpp says what a device offers, and its users do not know who offers it.
    "runtime": {".": set(), "cpu": {"."}, "cuda": {"."}, "absent": {"."}, "transfer": {"."}},
}
# An op says what to compile; it does not compile. Of the tile language it may know how much shared memory a pipeline takes.
OPS_MAY_INCLUDE_OF_COMPILER = {
    "compiler/compile_request.hpp",
    "compiler/kernel_source.hpp",
    "compiler/tl/cuda/pipeline_places.hpp",
}
# `python -m kiln` runs the command in its own process.
EXCEPTIONS = {("python/bindings/command.cpp", "cli/command_line.hpp")}
# A kernel may include the parts of the tile language it uses in place of all of <kiln/tl.hpp>.
KERNEL = re.compile(r"ops/(.*/)?(kernel|functors)[^/]*\.(hpp|cuh)")

# Third-party headers, and the only files that may include them. Benchmarks measure Kiln against the bare driver and bare oneTBB.
CONFINED = [
    (r"cuda\.h|cuda_.*\.h", r"(runtime/cuda|benchmarks)/.*\.cpp"),
    (r"nvrtc\.h", r"compiler/nvrtc_compiler\.cpp"),
    (r"nvtx3/.*", r"runtime/cuda/nvtx\.cpp"),
    (r"clang/.*|lld/.*", r"compiler/llvm_(bounds|compiler|globals)\.cpp"),
    (r"llvm/.*|llvm-c/.*", r"compiler/llvm_[a-z]+\.cpp|runtime/cpu/orc_loader\.cpp"),
    (r"dlpack/.*", r"core/dlpack\.cpp|tests/core/dlpack_test\.cpp"),
    (r"xxhash\.h|xxh3\.h", r"core/content_hash\.cpp"),
    (r"CLI/.*", r"(cli|tests/stress)/.*"),
    (
        r"nlohmann/.*",
        r"(cli|tests|benchmarks)/.*|autotune/database_document\.cpp|registry/(tuning/call_trace|profiling/profile_trace|tuning/tuning_report)\.cpp",
    ),
    (r"pybind11/.*|Python\.h|structmember\.h", r"python/bindings/.*"),
    (r"(oneapi/)?tbb/.*|tbb\.h", r"benchmarks/.*\.cpp"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def code_of(text: str) -> str:
    """`text` without comments and raw strings: kernels quoted in a test are no includes of the test."""
    return COMMENT.sub(lambda match: match.group() if match.group().startswith('"') else " ", text)


def floor_of(path: pathlib.PurePath) -> str:
    return path.parts[1] if len(path.parts) > 2 else "."


def floor_problems(path: pathlib.Path, includes: list[str]) -> Iterator[str]:
    folder, floor = path.parts[0], floor_of(path)
    floors = FLOORS.get(folder)
    if floors is None:
        return
    if floor not in floors:
        yield f"{path}: must lie on one of the floors of {folder}/: {', '.join(floors)}"
        return
    for target in map(pathlib.PurePosixPath, includes):
        below = floor_of(target)
        if target.parts[0] == folder and below != floor and below not in floors[floor]:
            yield f'{path}: {folder}/{floor} must not include {folder}/{below} ("{target}")'


def component_of(path: pathlib.PurePath, files: dict[pathlib.Path, list[str]]) -> str:
    """A header with its source of the same stem. A source without a header of its own belongs to the header that it includes and whose stem its own continues."""
    own = path.with_suffix("").as_posix()
    if path.suffix == ".cpp" and path.with_suffix(".hpp") not in files:
        headers = [include.removesuffix(".hpp") for include in files.get(pathlib.Path(path), ())]
        return max((header for header in headers if own.startswith(header + "_")), key=len, default=own)
    return own


def shortest_cycle(start: str, includes_of: dict[str, dict[str, str]]) -> list[str]:
    """The shortest way of includes from `start` back to it, `start` at both ends; empty where there is none."""
    came_from: dict[str, str] = {}
    waiting = [start]
    for component in waiting:
        for target in includes_of.get(component, {}):
            if target == start:
                way = [start, component]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if target not in came_from:
                came_from[target] = component
                waiting.append(target)
    return []


def cycle_problems(files: dict[pathlib.Path, list[str]]) -> Iterator[str]:
    """One problem for each cycle of components, none of which shares a component with another that is named."""
    includes_of: dict[str, dict[str, str]] = {}
    for path, includes in files.items():
        component = component_of(path, files)
        for include in includes:
            target = component_of(pathlib.Path(include), files)
            if target != component:
                includes_of.setdefault(component, {}).setdefault(target, f'{path}: "{include}"')
    named: set[str] = set()
    for component in includes_of:
        way = shortest_cycle(component, includes_of)
        if not way or named & set(way):
            continue
        named |= set(way)
        steps = "".join(f"\n    {includes_of[here][there]}" for here, there in itertools.pairwise(way))
        yield f"cycle of includes: {' -> '.join(way)}{steps}"


def problems_of(root: pathlib.Path, path: pathlib.Path, code: str) -> Iterator[str]:
    folder = path.parts[0]
    for quoted, angled in INCLUDE.findall(code):
        name = quoted or angled
        if quoted and not (root / quoted).is_file():
            yield f'{path}: "{quoted}" is not a file relative to the root'
        target = quoted.split("/")[0]
        if quoted and folder in BELOW and target in BELOW and target != folder:
            if target not in BELOW[folder] and (path.as_posix(), quoted) not in EXCEPTIONS:
                yield f'{path}: {folder}/ must not include {target}/ ("{quoted}")'
            elif (
                folder == "ops"
                and target == "compiler"
                and quoted not in OPS_MAY_INCLUDE_OF_COMPILER
                and not (quoted.startswith("compiler/tl/") and KERNEL.fullmatch(path.as_posix()))
            ):
                yield f'{path}: ops/ may include only {", ".join(sorted(OPS_MAY_INCLUDE_OF_COMPILER))} of compiler/ ("{quoted}")'
        for header, allowed in CONFINED:
            if re.fullmatch(header, name) and not re.fullmatch(allowed, path.as_posix()):
                yield f"{path}: {name} may be included only by {allowed}"
    # Tests set variables for the processes they start and may ask for their own switches.
    if re.search(r"\b(secure_)?getenv\s*\(", code) and folder != "tests" and path.as_posix() != "core/environment.cpp":
        yield f"{path}: getenv belongs in core/environment.cpp; use kiln::environment()"
    # They read "0.5" as 0 in a process whose locale has a decimal comma, which is a host program's to choose.
    if (by_locale := re.search(r"\b(strto(d|f|ld)|ato[fl]|sto(d|f|ld)|s?scanf)\s*\(", code)) and folder != "tests":
        yield f"{path}: {by_locale[1]} reads numbers as the process's locale has them; use std::from_chars"


def problems(root: pathlib.Path) -> list[str]:
    found = []
    files = {}
    for path in sources.cpp_files(root):
        code = code_of((root / path).read_text(encoding="utf-8"))
        files[path] = [quoted for quoted, _ in INCLUDE.findall(code) if quoted]
        found += [*problems_of(root, path, code), *floor_problems(path, files[path])]
    return [*found, *cycle_problems(files)]


def main() -> int:
    found = problems(pathlib.Path(sys.argv[1]))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
