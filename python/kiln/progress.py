"""How far a tuning is, shown to people: tqdm's bar where tqdm is installed, else a line on a terminal."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kiln import _kiln

BAR_WIDTH = 24


class Progress(Protocol):
    """Something that shows how far a tuning is."""

    def update(self, state: Mapping[str, Any]) -> None:
        """Shows a state: candidates, tried, failed, phase, default_us, best_us, best, elapsed_s, budget_s."""

    def close(self) -> None:
        """Leaves the screen in order."""


def best_text(state: Mapping[str, Any]) -> str:
    """``best 513 us (1.32x)``, or nothing before anything was measured."""
    if not state["best_us"]:
        return ""
    return f"best {state['best_us']:.4g} us ({state['default_us'] / state['best_us']:.2f}x)"


class Silent:
    """Shows nothing."""

    def update(self, state: Mapping[str, Any]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class Line:
    """One line of stderr that is written over again and again; nothing where stderr is no terminal."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.is_shown = False

    def update(self, state: Mapping[str, Any]) -> None:
        """Writes the line again."""
        if sys.stderr is None or not sys.stderr.isatty():
            return
        share = state["tried"] / max(state["candidates"], 1)
        bar = ("#" * int(share * BAR_WIDTH)).ljust(BAR_WIDTH)
        left_s = max(0.0, state["budget_s"] - state["elapsed_s"])
        parts = [f"{state['tried']}/{state['candidates']}", best_text(state), f"{left_s:.0f} s left"]
        text = f"[{bar}] {self.label} {', '.join(part for part in parts if part)}"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{text[:width]}")
        sys.stderr.flush()
        self.is_shown = True

    def close(self) -> None:
        """Clears the line."""
        if self.is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Bar:
    """tqdm's bar, a widget in notebooks. Like any of tqdm's, it stays when it is full."""

    def __init__(self, label: str) -> None:
        tqdm = importlib.import_module("tqdm.auto").tqdm
        # A notebook's stderr is no terminal, yet shows bars; anything else that is none is a log.
        in_notebook = any("notebook" in base.__module__ for base in tqdm.__mro__)
        self.bar = tqdm(total=None, desc=label, unit="config", disable=False if in_notebook else None, leave=True)

    def update(self, state: Mapping[str, Any]) -> None:
        """Moves the bar."""
        self.bar.total = state["candidates"]
        self.bar.n = state["tried"]
        self.bar.set_postfix_str(best_text(state), refresh=False)
        self.bar.refresh()

    def close(self) -> None:
        """Fills the bar when the tuning is over: a search ends before every config had its turn."""
        if sys.exc_info()[0] is None and self.bar.total:
            self.bar.n = self.bar.total
            self.bar.refresh()
        self.bar.close()


class Called:
    """Hands every state to a function of the caller's."""

    def __init__(self, function: Callable[[Mapping[str, Any]], object]) -> None:
        self.function = function

    def update(self, state: Mapping[str, Any]) -> None:
        """Calls the function."""
        self.function(state)

    def close(self) -> None:
        """Does nothing."""


def make_progress(wanted: bool | None | Callable[[Mapping[str, Any]], object], label: str) -> Progress:
    """What ``progress=`` asks for.

    Parameters
    ----------
    wanted
        True: a bar, where stderr is a terminal or a notebook. False or None: nothing. A callable: called with each
        state, ten times a second at most.
    label
        Stands before the bar.
    """
    if wanted is None or wanted is False:
        return Silent()
    if callable(wanted):
        return Called(wanted)
    if wanted is not True:
        raise _kiln.UsageTypeError(f"progress is {wanted!r}; expected True, False or a callable")
    bar: Progress | None = None
    try:
        bar = Bar(label)
    except ImportError:
        bar = Line(label)
    return bar
