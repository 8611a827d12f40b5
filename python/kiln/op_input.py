"""An input of an op of one's own, as people state it and as the extension module takes it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _kiln
from .launch_meta import Call, Described

_INTEGERS = (_kiln.DType.i32, _kiln.DType.i64)


@dataclass(frozen=True)
class Selection:
    """What entries of an input that selects may be (Input.selects)."""

    values: range
    #: Entries name different ones, since what is written twice has no definite value.
    distinct: bool = False


@dataclass(frozen=True)
class Input:
    """A tensor that an op takes."""

    name: str
    doc: str = ""
    #: May be left out; such inputs come last. The kernel gets a null pointer.
    optional: bool = False
    #: The op writes it, and returns it. An op that changes inputs has no outputs.
    mutated: bool = False
    #: May lie in page-locked memory of the host (kiln.PinnedPool, kiln.register_host_memory) while the call is on a GPU,
    #: whose kernel then reads or writes it over the bus.
    pinned: bool = False
    #: Where they differ from the op's. Of inputs that select i32 and i64, of addresses i64.
    dtypes: Sequence[Any] = ()
    #: Where the values choose memory or amounts of work (indices, slots, counts) rather than being numbers that the op
    #: computes with: ``selects(call)`` gives what they may be in a call, a range or kiln.Selection, or a list of one for
    #: each column of the last dimension. Random inputs are drawn from the whole of it, and an entry outside of it is
    #: work that the op skips.
    selects: Callable[[Call], range | Selection | Sequence[range | Selection]] | None = None
    #: Where the values are addresses: ``points_to(call)`` gives (dtype, shape) of what lies at each, dense. Random inputs
    #: get memory of their own for every entry; tuning and measuring copy what is there, as they copy changed inputs.
    points_to: Callable[[Call], tuple[Any, Sequence[int]]] | None = None


def _ranges(made: Any, shape: tuple[int, ...], what: str) -> list[tuple[int, int, bool]]:
    """(lowest, highest, whether they differ) for all entries, or for each column."""
    stated = [made] if isinstance(made, (range, Selection)) else made
    try:
        selections = [one if isinstance(one, Selection) else Selection(one) for one in stated]
        steps = [selection.values.step for selection in selections]
    except (TypeError, AttributeError):
        raise _kiln.UsageTypeError(
            f"{what} gave {made!r}; expected a range or kiln.Selection, or a list of one for each column of the last "
            "dimension"
        ) from None
    if any(step != 1 for step in steps):
        raise _kiln.UsageValueError(f"{what} gave {made!r}; expected ranges without a step")
    if len(selections) != 1 and [len(selections)] != list(shape[-1:]):
        raise _kiln.UsageValueError(
            f"{what} gave {len(selections)} ranges for an input of shape {shape}; expected one, or one for each column "
            "of its last dimension"
        )
    return [(s.values.start, s.values.stop - 1, s.distinct) for s in selections]


def _pointed(made: Any, what: str) -> tuple[Any, tuple[int, ...]]:
    """The dtype and shape of what lies at an address."""
    try:
        dtype, shape = (made.dtype, made.shape) if hasattr(made, "shape") else made
        return _kiln.DType(dtype), tuple(operator.index(extent) for extent in shape)
    except (TypeError, ValueError):
        raise _kiln.UsageTypeError(f"{what} gave {made!r}; expected (dtype, shape)") from None


def _dtypes(item: Input, legal: Sequence[_kiln.DType], why: str, what: str) -> list[Any]:
    if not item.dtypes:
        return list(legal)
    for dtype in item.dtypes:
        if _kiln.DType(dtype) not in legal:
            expected = " or ".join(one.name for one in legal)
            raise _kiln.UsageValueError(
                f"{what}: input {item.name!r} {why}, and may be of {_kiln.DType(dtype).name}; expected {expected}"
            )
    return list(item.dtypes)


def input_dict(item: Input, place: int, call: Callable[..., Call], what: str) -> dict[str, Any]:
    """The input as the extension module takes it; ``call`` makes a Call of what that describes one by."""
    made: dict[str, Any] = {
        "name": item.name,
        "doc": item.doc,
        "optional": item.optional,
        "mutated": item.mutated,
        "pinned": item.pinned,
        "dtypes": list(item.dtypes),
        "selects": None,
        "points_to": None,
    }
    for part in ("selects", "points_to"):
        if getattr(item, part) is not None and not callable(getattr(item, part)):
            raise _kiln.UsageTypeError(
                f"{what}: {part} of input {item.name!r} is {getattr(item, part)!r}; expected a function of the call"
            )
    if item.selects is not None and item.points_to is not None:
        raise _kiln.UsageValueError(
            f"{what}: input {item.name!r} has selects and points_to; its values are either choices or addresses"
        )
    if (selects := item.selects) is not None:

        def ranges(
            inputs: Sequence[Described], outputs: Sequence[Described], attributes: dict[str, Any]
        ) -> list[tuple[int, int, bool]]:
            gave = selects(call(inputs, outputs, attributes))
            return _ranges(gave, tuple(inputs[place][1]), f"{what}: selects of input {item.name!r}")

        made |= {"selects": ranges, "dtypes": _dtypes(item, _INTEGERS, "selects", what)}
    if (points_to := item.points_to) is not None:

        def pointed(
            inputs: Sequence[Described], outputs: Sequence[Described], attributes: dict[str, Any]
        ) -> tuple[Any, tuple[int, ...]]:
            gave = points_to(call(inputs, outputs, attributes))
            return _pointed(gave, f"{what}: points_to of input {item.name!r}")

        made |= {"points_to": pointed, "dtypes": _dtypes(item, (_kiln.DType.i64,), "holds addresses", what)}
    return made
