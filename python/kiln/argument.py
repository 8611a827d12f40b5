"""Types of arguments that the compiled module would otherwise refuse with a list of its own signatures."""

from __future__ import annotations

import numbers

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
