"""Runs the README's examples as printed, against an installed Kiln.

usage: readme_examples.py README PREFIX [PACKAGE_FOLDER PYTHON]

Every fenced block marked `cpp` is built as a program (with the README's own `cmake` block as its project where one stands) and run; a `text` block
that follows is its exact output. Every block marked `python` is run with PYTHON, where PACKAGE_FOLDER has the package, likewise. In every block marked `console`, lines that start with "$ kiln" are run and must succeed.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MIN_CPP_EXAMPLES = 1
MIN_PYTHON_EXAMPLES = 1
MIN_COMMANDS = 1


def run(command: list[str], environment: dict[str, str], folder: pathlib.Path) -> str:
    print("$", shlex.join(command), flush=True)
    result = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    print(result.stdout + result.stderr, flush=True)
    if result.returncode != 0:
        sys.exit(f"exit status {result.returncode}")
    return result.stdout


def build_and_run(
    project: str, source: str, prefix: pathlib.Path, environment: dict[str, str], folder: pathlib.Path
) -> str:
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(example LANGUAGES CXX)\n" + project
    )
    (folder / "main.cpp").write_text(source)
    run(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"], environment, folder)
    run(["cmake", "--build", "build"], environment, folder)
    return run(["build/main"], environment, folder)


def require_output(printed: str, following: list[tuple[str, str]]) -> None:
    """Stops unless `printed` is what a `text` block that comes next says."""
    if following and following[0][0] == "text" and printed != following[0][1]:
        sys.exit(f"the README promises:\n{following[0][1]}")


def main() -> None:
    readme, prefix = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    python = sys.argv[3:5]
    blocks = FENCE.findall(readme.read_text(encoding="utf-8"))
    project = "".join(text for language, text in blocks if language == "cmake")
    num_programs = num_scripts = num_commands = 0
    for index, (language, text) in enumerate(blocks):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            path = f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}"
            environment = {**os.environ, "PATH": path, "KILN_CACHE_DIR": str(folder / "cache")}
            if language == "cpp":
                require_output(build_and_run(project, text, prefix, environment, folder), blocks[index + 1 :])
                num_programs += 1
            elif language == "python" and python:
                (folder / "main.py").write_text(text)
                package_folder, interpreter = python
                require_output(
                    run([interpreter, "main.py"], {**environment, "PYTHONPATH": package_folder}, folder),
                    blocks[index + 1 :],
                )
                num_scripts += 1
            elif language == "console":
                for line in text.splitlines():
                    if line.startswith("$ kiln "):
                        run(shlex.split(line[2:], comments=True), environment, folder)
                        num_commands += 1
    print(f"{num_programs} programs, {num_scripts} scripts and {num_commands} commands ran as printed")
    lost_scripts = bool(python) and num_scripts < MIN_PYTHON_EXAMPLES
    if num_programs < MIN_CPP_EXAMPLES or num_commands < MIN_COMMANDS or lost_scripts:
        sys.exit("the README has lost its examples")


if __name__ == "__main__":
    main()
