"""Calls that must be refused, one a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def refused(exception: type[Exception] | tuple[type[Exception], ...], words: str, call: Callable[[], object]) -> None:
    """`call` ends in this exception, in whose text the regular expression `words` is found."""
    __tracebackhide__ = True
    with pytest.raises(exception, match=words):
        call()
