"""The examples that people meet first, run as written."""

from __future__ import annotations

import pathlib

import pytest
from script_process import run_example

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def test_quickstart() -> None:
    done = run_example("quickstart.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ndarray float32 (1000, 128), as NumPy's")


def test_digits_are_recognised_tuned_once_and_drawn(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    picture, cache = tmp_path / "digits.png", tmp_path / "cache"
    arguments = ("--device", "cpu", "--tuning-budget", "1", "--picture", str(picture))
    first = run_example("digits.py", *arguments, KILN_CACHE_DIR=str(cache))
    assert first.returncode == 0, first.stderr
    assert "accuracy" in first.stdout and "predictions equal to NumPy's" in first.stdout
    assert "  tuned linear_relu x1:" in first.stdout
    assert picture.read_bytes().startswith(PNG_SIGNATURE)
    assert str(picture) in first.stdout and str(cache) in first.stdout

    second = run_example("digits.py", *arguments, KILN_CACHE_DIR=str(cache))
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
    done = run_example("digits.py", *arguments)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]
