"""How kiln.autotune shows how far it is."""

from __future__ import annotations

import sys
import warnings

import kiln
import numpy
import pytest
from kiln.progress import Bar, Called, Line, Silent, make_progress

STATE = {
    "phase": "screening",
    "candidates": 8,
    "tried": 2,
    "failed": 0,
    "default_us": 30.0,
    "best_us": 20.0,
    "best": {"BLOCK_SIZE": 64},
    "elapsed_s": 1.0,
    "budget_s": 5.0,
}


class Terminal:
    """A stderr that is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def test_a_line_shows_on_terminals_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    line = Line("tuning neg")
    line.update(STATE)
    line.close()
    assert capsys.readouterr().err == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line.update(STATE)
    assert "[######                  ] tuning neg 2/8, best 20 us (1.50x), 4 s left" in terminal.text
    line.update({**STATE, "best_us": 0, "default_us": 0})
    line.close()
    assert terminal.text.endswith("\r\x1b[K")


def test_a_bar_is_tqdms(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = Bar("tuning neg")
    bar.update(STATE)
    assert "2/8" in terminal.text
    assert "best 20 us (1.50x)" in terminal.text
    bar.close()
    assert "8/8" in terminal.text


def test_without_a_terminal_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    kiln.autotune("neg", numpy.ones(2000, numpy.float32), budget_s=1, record=False)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_without_tqdm_it_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert isinstance(make_progress(True, "tuning"), Line)
    assert isinstance(make_progress(False, "tuning"), Silent)
    assert isinstance(make_progress(print, "tuning"), Called)


def test_notebooks_show_a_bar_though_stderr_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    tqdm_auto = pytest.importorskip("tqdm.auto")
    made: dict[str, object] = {}

    class NotebookBar(tqdm_auto.tqdm):  # type: ignore[misc,name-defined]
        def __init__(self, **options: object) -> None:
            made.update(options)

    NotebookBar.__module__ = "tqdm.notebook"
    monkeypatch.setattr(tqdm_auto, "tqdm", NotebookBar)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Bar("tuning neg")
    assert made["disable"] is False
