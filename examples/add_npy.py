#!/usr/bin/python3
"""Adds .npy arrays with `kiln run` on the CPU and compares what it wrote with NumPy.

Debian's own interpreter is named above because python3-numpy belongs to it; a python3 earlier on PATH may have no NumPy.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent


def kiln_add(kiln: pathlib.Path, folder: pathlib.Path, a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    numpy.save(folder / "a.npy", a)
    numpy.save(folder / "b.npy", b)
    command = [
        kiln,
        "run",
        "add",
        "--input",
        folder / "a.npy",
        "--input",
        folder / "b.npy",
        "--output",
        folder / "c.npy",
    ]
    subprocess.run(command + ["--device", "cpu"], check=True)
    return numpy.load(folder / "c.npy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiln", type=pathlib.Path, default=ROOT / "build/bin/kiln", help="the kiln command")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    random = numpy.random.default_rng(arguments.seed)
    a = random.standard_normal((4000, 3000), dtype=numpy.float32)
    b = random.standard_normal((4000, 3000), dtype=numpy.float32)
    row = random.standard_normal(3000, dtype=numpy.float32).astype(numpy.float16)

    failed = False
    for name, other in [("f32 (4000, 3000) + f32 (4000, 3000)", b), ("f32 (4000, 3000) + f16 (3000,)", row)]:
        with tempfile.TemporaryDirectory() as folder:
            result = kiln_add(arguments.kiln, pathlib.Path(folder), a, other)
        expected = a + other
        # One addition, rounded once by both: anything but the same bits is a wrong answer.
        same = result.dtype == expected.dtype and numpy.array_equal(result, expected)
        print(f"{name} -> {result.dtype} {result.shape}: {'equal to' if same else 'DIFFERS FROM'} NumPy's")
        failed |= not same
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
