"""Where the config of a call comes from that gives none: the process's tuning policy, and its log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from kiln import _kiln
from kiln.argument import check_text


def tuning_policy() -> str:
    """The process's policy: what was set last, else the environment variable KILN_TUNING, else ``"use"``."""
    return _kiln.tuning_policy()


def set_tuning_policy(policy: str) -> None:
    """Sets the policy of the whole process.

    Parameters
    ----------
    policy
        ``"off"``: the op's default config. ``"use"``: what was tuned for exactly this call, else the default.
        ``"nearest"``: else what was tuned for the closest shapes. ``"first_use"``: like ``"use"``, but a call that is
        seen for the first time is tuned before it runs, for up to KILN_TUNING_BUDGET seconds (2).

    Raises
    ------
    TypeError
        For what is no text.
    ValueError
        For any other text.
    """
    check_text("policy", policy)
    _kiln.set_tuning_policy(policy)


@contextlib.contextmanager
def tuning(policy: str) -> Iterator[None]:
    """Sets the policy for a ``with`` block, and puts back what it was: ``with kiln.tuning("off"): ...``.

    It is the policy of the process: calls that other threads plan meanwhile see it too. For a single call give
    ``tuning=`` to the call itself.
    """
    former = _kiln.tuning_policy()
    set_tuning_policy(policy)
    try:
        yield
    finally:
        _kiln.set_tuning_policy(former)


def set_tuning_log(log: Callable[[str], object] | None) -> None:
    """Has ``log`` called with one line for each plan whose config was not the obvious one.

    That is one taken from the nearest shapes, or tuned at first use, or tuned and then found not to work. The library
    prints nothing itself. ``log`` is called on the dispatching thread; what it raises is reported as unraisable. None:
    nobody listens. ``kiln.set_tuning_log(logging.getLogger("kiln").info)`` sends the lines to the logging module.
    """
    if log is not None and not callable(log):
        raise _kiln.UsageTypeError(f"log is {log!r}; expected a callable that takes a line of text, or None")
    _kiln.set_tuning_log(log)
