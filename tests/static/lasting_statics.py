"""No static of the library is destroyed when the process exits: threads may still dispatch then.

usage: lasting_statics.py LIBRARY NM OBJDUMP

A static with a destructor has it called at exit by __cxa_atexit, to which a library without any has no reference.
Those of threads are another matter, and another function.
"""

import re
import subprocess
import sys


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def destroyed_in(library: str, nm: str, objdump: str) -> list[str]:
    """The functions that make such statics; empty where there are none."""
    if not re.search(r"\b__cxa_atexit\b", output_of(nm, "--dynamic", "--undefined-only", library)):
        return []
    function, found = "somewhere", []
    for line in output_of(objdump, "--disassemble", "--demangle", "--no-show-raw-insn", library).splitlines():
        if begins := re.fullmatch(r"[0-9a-f]+ <(.*)>:", line):
            function = begins[1]
        elif "<__cxa_atexit@plt>" in line:
            found.append(function)
    return found or [function]


def main() -> int:
    library, nm, objdump = sys.argv[1:4]
    found = destroyed_in(library, nm, objdump)
    for function in found:
        print(f"{library}: {function}: a static made here is destroyed at exit; leak it: static T& it = *new T(...)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
