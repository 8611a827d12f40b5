"""A call of a function of one's own that takes a config first, as kiln.autotune tunes it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kiln import _kiln
from kiln.benchmarking import device_of
from kiln.fingerprint import fingerprint

_PLAIN = (bool, int, float, str, _kiln.DType)


def function_call(
    function: Callable[..., Any], arguments: Sequence[object], named: Mapping[str, object]
) -> _kiln.PythonFunction:
    """The call ``function(config, *arguments, **named)``.

    What the tuning database knows it by: the function's name and code, with the values outside of it that it reads;
    dtypes, shapes and layouts of the arrays among its arguments; the other arguments, plain ones by their value and
    objects by their type.
    """
    arrays: list[object] = []
    plain: dict[str, object] = {}
    for name, value in _each(arguments, named):
        if _is_array(value):
            arrays.append(value)
        else:
            plain[name] = (
                value if isinstance(value, _PLAIN) else f"a {type(value).__module__}.{type(value).__qualname__}"
            )
    return _kiln.PythonFunction(
        qualified_name(function),
        fingerprint(function),
        arrays,
        plain,
        device_of(arrays),
        lambda config: function(config, *arguments, **named),
    )


def _each(arguments: Sequence[object], named: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Arguments with their places or names; those of lists and tuples one by one."""
    for name, value in [*enumerate(arguments), *named.items()]:
        if isinstance(value, (list, tuple)):
            for place, item in enumerate(value):
                yield f"{name}.{place}", item
        elif value is not None:
            yield str(name), value


def _is_array(value: object) -> bool:
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def qualified_name(function: Any) -> str:
    """What the tuning database has a function under: its module and name."""
    if isinstance(function, functools.partial):
        return qualified_name(function.func)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"
