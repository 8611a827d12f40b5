"""Checks that clang-format would change nothing.

usage: clang_format.py ROOT CLANG_FORMAT
"""

import pathlib
import re
import subprocess
import sys

import sources


def main() -> int:
    root, clang_format = pathlib.Path(sys.argv[1]), sys.argv[2]
    files = [str(path) for path in sources.cpp_files(root)]
    run = subprocess.run([clang_format, "--dry-run", "--Werror", *files], cwd=root, capture_output=True, text=True)
    if run.returncode != 0:
        unformatted = sorted(set(re.findall(r"^([^\s:]+):\d+:\d+: error:", run.stderr, re.MULTILINE)))
        print(f"{clang_format} -i {' '.join(unformatted)}" if unformatted else run.stderr)
    return run.returncode if files else 1


if __name__ == "__main__":
    sys.exit(main())
