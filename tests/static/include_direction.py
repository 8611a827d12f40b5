"""Checks that includes point down, that third-party headers stop at one file each, and that the environment is read in one place.

usage: include_direction.py ROOT
"""

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
    (r"cuda\.h|cuda_.*\.h", r"(runtime/cuda_.*|benchmarks/.*)\.cpp"),
    (r"nvrtc\.h", r"compiler/nvrtc_compiler\.cpp"),
    (r"nvtx3/.*", r"runtime/nvtx\.cpp"),
    (r"clang/.*|lld/.*", r"compiler/llvm_compiler\.cpp"),
    (r"llvm/.*|llvm-c/.*", r"compiler/llvm_(compiler|pipeline|copies)\.cpp|runtime/orc_loader\.cpp"),
    (r"dlpack/.*", r"core/dlpack\.cpp|tests/core/dlpack_test\.cpp"),
    (r"xxhash\.h|xxh3\.h", r"core/content_hash\.cpp"),
    (r"CLI/.*", r"(cli|tests/stress)/.*"),
    (
        r"nlohmann/.*",
        r"(cli|tests|benchmarks)/.*|autotune/database_document\.cpp|registry/(call_trace|profile_trace|tuning_report)\.cpp",
    ),
    (r"pybind11/.*|Python\.h|structmember\.h", r"python/bindings/.*"),
    (r"(oneapi/)?tbb/.*|tbb\.h", r"(runtime|benchmarks)/.*\.cpp"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def code_of(text: str) -> str:
    """`text` without comments and raw strings: kernels quoted in a test are no includes of the test."""
    return COMMENT.sub(lambda match: match.group() if match.group().startswith('"') else " ", text)


def problems_of(root: pathlib.Path, path: pathlib.Path) -> Iterator[str]:
    code = code_of((root / path).read_text(encoding="utf-8"))
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


def problems(root: pathlib.Path) -> list[str]:
    return [problem for path in sources.cpp_files(root) for problem in problems_of(root, path)]


def main() -> int:
    found = problems(pathlib.Path(sys.argv[1]))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
