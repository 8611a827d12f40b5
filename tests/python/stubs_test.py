"""The stubs say what the package has: kiln/ops.pyi is the registry's, and _kiln.pyi names what the module has."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

from kiln import _kiln

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_ops_stub_is_up_to_date() -> None:
    # In a process of its own: other tests of this one may have registered ops.
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_stubs"), "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


def test_module_stub_names_everything() -> None:
    tree = ast.parse((ROOT / "python" / "kiln" / "_kiln.pyi").read_text(encoding="utf-8"))
    stubbed: dict[str, set[str]] = {"": set()}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            stubbed[""].add(node.name)
            stubbed[node.name] = {
                part.name if isinstance(part, ast.FunctionDef) else ast.unparse(part).split(" ")[0].split(":")[0]
                for part in node.body
            }
        elif isinstance(node, ast.FunctionDef):
            stubbed[""].add(node.name)
    real = {name for name in dir(_kiln) if not name.startswith("_")}
    assert real == {name for name in stubbed[""] if not name.startswith("_")}
    for name in real:
        value = getattr(_kiln, name)
        if isinstance(value, type) and not issubclass(value, Exception):
            public = {member for member in vars(value) if not member.startswith("_")}
            assert public == {member for member in stubbed[name] if not member.startswith("_")}, name
