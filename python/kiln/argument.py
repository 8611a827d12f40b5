"""Types of arguments that the compiled module would otherwise refuse with a list of its own signatures."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from . import _kiln


def check_number(name: str, value: object) -> None:
    """Raises TypeError unless `value` is a number, and no bool."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _kiln.UsageTypeError(f"{name}={value!r}; expected a number")


def check_integer(name: str, value: object, *, least: int) -> None:
    """Raises TypeError unless `value` is an integer, and ValueError where it is below `least`; None is fine."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _kiln.UsageTypeError(f"{name}={value!r}; expected an integer, {least} or more, or None")
    if int(value) < least:
        raise _kiln.UsageValueError(f"{name}={value}; expected an integer, {least} or more, or None")


def check_bool(name: str, value: object) -> None:
    """Raises TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise _kiln.UsageTypeError(f"{name}={value!r}; expected True or False")


def check_text(name: str, value: object, *, or_none: bool = False) -> None:
    """Raises TypeError unless `value` is a str, or None where that is asked for."""
    if not isinstance(value, str) and not (or_none and value is None):
        raise _kiln.UsageTypeError(f"{name}={value!r}; expected a str{' or None' if or_none else ''}")


def listed(name: str, value: object, is_one: Callable[[object], bool], expected: str) -> list[Any]:
    """One of what is expected, or a list or tuple of these, as a list.

    Raises
    ------
    TypeError
        For anything else, and for what is none of these among them.
    """
    if is_one(value):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise _kiln.UsageTypeError(f"{name}={value!r}; expected {expected}, or a list of these")
    for i, item in enumerate(value):
        if not is_one(item):
            raise _kiln.UsageTypeError(f"{name}[{i}] is {item!r}; expected {expected}")
    return list(value)
