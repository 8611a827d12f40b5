"""Compiles host headers by themselves, twice included, with the flags the library is built with: a drawn third, or with KILN_SWEEP=full all.

usage: header_alone.py ROOT JOBS COMPILER [FLAG...]

The tile language, kernels and functors are left out: they are for Kiln's own compilers, which the sweep runs over all of them. Iterations, which both sides
include, are held to what the host's compiler says.
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys

import sources
from drawn import drawn_third

FOLDERS = ("core", "compiler", "runtime", "ops", "autotune", "registry", "offload", "cli")
KERNEL_SIDE = re.compile(r"compiler/tl/.*|ops/(.*/)?(kernel|functors)[^/]*\.hpp")


def host_headers(root: pathlib.Path) -> list[pathlib.Path]:
    headers = [path for path in sources.cpp_files(root, FOLDERS) if path.suffix == ".hpp"]
    return [path for path in headers if not KERNEL_SIDE.fullmatch(path.as_posix())]


def compile_alone(command: list[str], header: pathlib.Path) -> str:
    text = f'#include "{header.as_posix()}"\n' * 2
    run = subprocess.run(command + ["-fsyntax-only", "-x", "c++", "-"], input=text, capture_output=True, text=True)
    return "" if run.returncode == 0 else f"{header} does not compile by itself:\n{run.stderr}"


def main() -> int:
    root, jobs, command = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    headers = drawn_third(host_headers(root))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        problems = [problem for problem in pool.map(lambda header: compile_alone(command, header), headers) if problem]
    print("\n".join(problems) or f"{len(headers)} headers compile by themselves")
    return 1 if problems or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
