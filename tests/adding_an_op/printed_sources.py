"""Puts the sources that docs/adding-an-op.md prints into a folder, as a reader would into the tree.

usage: printed_sources.py DOCUMENT ROOT FOLDER

A fenced block ```` ```cpp PATH ```` is a new file. A block ```` ```diff PATH ```` changes one of ROOT's: its lines that begin with a space or '-' must stand there once, and give way to those
that begin with a space or '+'. Files that say the same already are left alone, so that nothing is compiled anew. FOLDER then holds the new and the changed files alone.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"^```(cpp|diff) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def applied(text: str, diff: str, path: str) -> str:
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    if text.count(old) != 1:
        sys.exit(f"these lines stand {text.count(old)} times in {path}, not once:\n{old}")
    return text.replace(old, new)


def printed_sources(document: str, root: pathlib.Path) -> dict[str, str]:
    sources: dict[str, str] = {}
    for kind, path, body in BLOCK.findall(document):
        if kind == "cpp":
            if path in sources or (root / path).exists():
                sys.exit(f"{path} is printed as a new file, and there is one already")
            sources[path] = body
        else:
            sources[path] = applied(sources.get(path) or (root / path).read_text(encoding="utf-8"), body, path)
    return sources


def main() -> None:
    document, root, folder = (pathlib.Path(argument) for argument in sys.argv[1:4])
    sources = printed_sources(document.read_text(encoding="utf-8"), root)
    for left_over in [path for path in folder.rglob("*") if path.is_file()]:
        if left_over.relative_to(folder).as_posix() not in sources:
            left_over.unlink()
    for path, text in sources.items():
        file = folder / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
