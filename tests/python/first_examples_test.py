"""The examples that people meet first, run as written."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import kiln
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def run(example: str, *arguments: str, cache: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(kiln.__file__).parents[1])}
    if cache is not None:
        environment["KILN_CACHE_DIR"] = str(cache)
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)


def test_quickstart() -> None:
    done = run("quickstart.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ndarray float32 (1000, 128), as NumPy's")


def test_digits_are_recognised_tuned_once_and_drawn(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    picture, cache = tmp_path / "digits.png", tmp_path / "cache"
    arguments = ("--device", "cpu", "--tuning-budget", "1", "--picture", str(picture))
    first = run("digits.py", *arguments, cache=cache)
    assert first.returncode == 0, first.stderr
    assert "accuracy" in first.stdout and "predictions equal to NumPy's" in first.stdout
    assert "  tuned linear_relu x1:" in first.stdout
    assert picture.read_bytes().startswith(PNG_SIGNATURE)
    assert str(picture) in first.stdout and str(cache) in first.stdout

    second = run("digits.py", *arguments, cache=cache)
    assert second.returncode == 0, second.stderr
    assert "  tuned before, found in the cache: linear_relu x1" in second.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--device", "tpu"), "invalid choice: 'tpu'"),
        (("--tuning-budget", "0"), "expected a number of seconds above 0"),
        (("--picture", "/nowhere/digits.png"), "in a folder that does not exist"),
    ],
)
def test_digits_says_what_it_expects(arguments: tuple[str, ...], says: str) -> None:
    pytest.importorskip("sklearn")
    done = run("digits.py", *arguments)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]
