"""Scripts and examples in a process of their own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import kiln

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 120
EXAMPLE_PATIENCE_S = 600


def environment() -> dict[str, str]:
    """This process's, in which the package that is tested is imported."""
    return {**os.environ, "PYTHONPATH": str(pathlib.Path(kiln.__file__).parents[1])}


def run_script(script: str, tmp_path: pathlib.Path) -> str:
    """Runs it in a process of its own, whose past is known; a child that hangs fails the test."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(path)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_example(name: str, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs examples/NAME as written; `changes` are of its environment."""
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        capture_output=True,
        text=True,
        env=environment() | changes,
        timeout=EXAMPLE_PATIENCE_S,
    )
