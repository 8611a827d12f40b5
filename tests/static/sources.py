"""Which files of the tree are Kiln's own sources, for the static checks."""

import pathlib
from collections.abc import Iterator, Sequence

FOLDERS = (
    "core",
    "compiler",
    "runtime",
    "ops",
    "autotune",
    "registry",
    "offload",
    "python",
    "cli",
    "tests",
    "benchmarks",
    "examples",
)
CPP_SUFFIXES = (".hpp", ".cpp", ".cuh")


def cpp_files(root: pathlib.Path, folders: Sequence[str] = FOLDERS) -> Iterator[pathlib.Path]:
    """C++ files under `folders` and at the top of `root`, sorted, as paths relative to `root`."""
    found = [path for path in root.iterdir() if path.suffix in CPP_SUFFIXES]
    for folder in folders:
        found += [path for path in (root / folder).rglob("*") if path.suffix in CPP_SUFFIXES]
    return iter(sorted(path.relative_to(root) for path in found))
