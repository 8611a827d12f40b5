"""Checks that results of benchmarks are what docs/performance.md says of them: all of them small, every one in the form of benchmarks/result_file.py, and those that documents name are there.

usage: benchmark_results.py ROOT
"""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import result_file

MOST_BYTES = 300_000
NAME = re.compile(r"\d{4}-\d\d-\d\d-[\w-]+\.json")
FOLDERS = ("benchmarks/results", "benchmarks/models")


def problems(root: pathlib.Path) -> list[str]:
    """One line for each rule that does not hold in the tree at `root`."""
    found = []
    results = [path for folder in FOLDERS for path in sorted((root / folder).glob("*"))]
    size = sum(path.stat().st_size for path in results if path.parent.name == "results")
    if size > MOST_BYTES:
        found.append(
            f"benchmarks/results holds {size} bytes, at most {MOST_BYTES} are allowed: take out what a later result has and no document names"
        )
    for path in results:
        try:
            text = path.read_text()
            if result_file.text_of(result_file.parse(text)) != text:
                found.append(
                    f"{path.relative_to(root)} is not in the form of results: benchmarks/result_file.py {path}"
                )
        except json.JSONDecodeError as error:
            found.append(f"{path.relative_to(root)} is no JSON: {error}")
    if not results:  # a source distribution: pyproject.toml leaves them out
        return []
    for document in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        for name in sorted(set(NAME.findall(document.read_text())) - {path.name for path in results}):
            found.append(f"{document.relative_to(root)} names {name}, which is in none of {', '.join(FOLDERS)}")
    return found


def main() -> int:
    found = problems(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
