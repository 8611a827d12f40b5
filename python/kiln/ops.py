"""Every registered op as a function: kiln.ops.add(x, y). Ops registered later are here too."""

from __future__ import annotations

from . import _kiln

__all__: list[str] = []  # `from kiln.ops import *` would hide sum, max, any and other names of Python's own


def __getattr__(name: str) -> _kiln.Op:
    if name.startswith("__"):
        raise AttributeError(f"module 'kiln.ops' has no attribute {name!r}")
    try:
        op = _kiln.op(name)
    except _kiln.UnknownOpError as error:
        raise AttributeError(f"kiln.ops: {error}") from None
    globals()[name] = op  # a registered op is never changed, so the next look-up need not come here
    return op


def __dir__() -> list[str]:
    return [name for name in _kiln.op_names() if name.isidentifier()]  # not the ops behind kiln.Kernel
