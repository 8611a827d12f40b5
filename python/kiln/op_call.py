"""What autotune, benchmark and inspect take as an op: its name, a kiln.Op or a kiln.Kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kiln import _kiln


class OpCall(NamedTuple):
    """A call of a registered op: tensors in the op's order, and attributes (or tensors) by name."""

    op: str
    tensors: list[object]
    arguments: dict[str, object]


def is_op(candidate: object) -> bool:
    """Whether it names an op, rather than being just any callable."""
    return isinstance(candidate, (str, _kiln.Op)) or hasattr(candidate, "call_of")


def name_of(op: Any) -> str:
    """What people call it: an op's name, a kernel's, a function's."""
    return op if isinstance(op, str) else str(getattr(op, "__name__", None) or getattr(op, "name", type(op).__name__))


def takes_by_name(op: Any, num_positional: int, name: str) -> bool:
    """Whether a call with that many positional arguments can have an attribute of this name."""
    if isinstance(op, str):
        op = _kiln.op(op)
    if isinstance(op, _kiln.Op):
        return any(attribute.name == name for attribute in op.spec.attributes)
    parameters = getattr(op, "parameters", ())
    return any(parameter == name for parameter, _ in parameters[num_positional:])


def op_call(op: Any, tensors: Sequence[object], arguments: Mapping[str, object]) -> OpCall:
    """The call of ``op`` with these arguments; of a kiln.Kernel the arguments are those of the kernel.

    Raises
    ------
    TypeError
        For what is no op.
    """
    if isinstance(op, str):
        return OpCall(op, list(tensors), dict(arguments))
    if isinstance(op, _kiln.Op):
        return OpCall(op.name, list(tensors), dict(arguments))
    if hasattr(op, "call_of"):
        return OpCall(*op.call_of(*tensors, **arguments))
    raise _kiln.UsageTypeError(f"op is {op!r}; expected the name of an op, a kiln.Op or a kiln.Kernel")
