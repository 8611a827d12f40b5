"""clang-tidy over what a build compiles of Kiln's folders: a drawn third of the units, or with KILN_SWEEP=full all.

usage: clang_tidy.py ROOT BUILD JOBS CLANG_TIDY RUN_CLANG_TIDY

The files that include Clang and LLVM are left out: their headers take minutes to analyse and are not ours.
"""

import json
import pathlib
import re
import subprocess
import sys

from drawn import drawn_third

OURS = re.compile(
    r"(core|compiler|runtime|ops|autotune|registry|offload|cli)/(?!.*(llvm_[a-z]+|orc_loader|embedded_files|plot_script)\.cpp$)"
)


def units(root: pathlib.Path, build: pathlib.Path) -> list[str]:
    """Sources, and files of several that a build made, as the compilation database names them."""
    found = {entry["file"] for entry in json.loads((build / "compile_commands.json").read_text())}
    folders = (f"{build}/", f"{root}/")
    return sorted(name for name in found if any(name.startswith(at) and OURS.match(name[len(at) :]) for at in folders))


def main() -> int:
    root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    jobs, tidy, run_tidy = sys.argv[3:6]
    chosen = drawn_third(units(root, build))
    if not chosen:
        print(f"{build}/compile_commands.json names no source of Kiln's")
        return 1
    options = [
        "-quiet",
        "-p",
        str(build),
        "-j",
        jobs,
        "-clang-tidy-binary",
        tidy,
        "-config-file",
        str(root / ".clang-tidy"),
    ]
    return subprocess.run([sys.executable, run_tidy, *options, *(f"^{re.escape(name)}$" for name in chosen)]).returncode


if __name__ == "__main__":
    sys.exit(main())
