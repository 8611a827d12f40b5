"""What was tuned, when, and what came of it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kiln import _kiln
from kiln.function_call import qualified_name
from kiln.op_call import is_op, name_of, op_call


@dataclass(frozen=True)
class TuningRecord:
    """One tuned call: what was tried, what was chosen, and when. Times are in microseconds."""

    op: str
    variant: str
    dtypes: str  #: of the tensors: "bf16, bf16"
    shapes: str  #: "4096x4096, 4096x1024"; "<=1024x4096" where a range of extents shares a config
    attributes: str
    device: str
    processors: int  #: multiprocessors; a CPU's threads
    config: dict[str, int]  #: the choice
    default_config: dict[str, int]
    relative: tuple[float, float] | None  #: the choice's time over the default's, with 95% confidence
    measuring: str  #: how times were taken: "eager, flushed L2"
    strategy: str
    complete: bool  #: whether a longer search would look at no more configs
    driver: str
    compiler: str
    date: datetime.datetime  #: when, in UTC
    tried: list[dict[str, Any]] = field(
        repr=False
    )  #: config, outcome, reason, samples, median_us, interval_us; best first
    history: list[dict[str, Any]] = field(
        repr=False
    )  #: the last ten choices: date, config, median_us, interval_us, ...
    key: str  #: what ``kiln cache show`` calls it

    def _time_of(self, config: Mapping[str, int]) -> float | None:
        return next((tried["median_us"] for tried in self.tried if tried["config"] == config), None)

    @property
    def median_us(self) -> float | None:
        """The choice's time."""
        return self._time_of(self.config)

    @property
    def default_us(self) -> float | None:
        """The default's time; None where it was not measured."""
        return self._time_of(self.default_config)

    def to_dict(self) -> dict[str, Any]:
        """A flat dict, a row for ``pandas.DataFrame``; without what was tried and chosen before."""
        left_out = ("tried", "history")
        row = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**row, "median_us": self.median_us, "default_us": self.default_us, "configs": len(self.tried)}


def tuning_history(
    op: Any = None,
    *tensors: object,
    shape: str | Sequence[int] | None = None,
    dtype: Any = None,
    **attributes: object,
) -> list[TuningRecord]:
    """What the tuner tried and chose: every call that was tuned, in this process or another, and is in the database.

    ``kiln cache list --tuning`` shows the same.

    Parameters
    ----------
    op
        The name of an op, a kiln.Op, a kiln.Kernel, or a function that was tuned; None: all of them.
    tensors
        With arrays, or kiln.TensorMeta: what exactly such a call takes its config from. Ops and kernels only.
    shape
        Only where one of the tensors has this shape: a tuple, or text such as ``"4096x4096"``.
    dtype
        Only where one of the tensors has this dtype.
    attributes
        With ``tensors``: the op's attributes.

    Returns
    -------
    list of TuningRecord
        The latest first.

    Raises
    ------
    ValueError, TypeError
        For an op that there is not, a dtype that is none; as a call, with ``tensors``.
    """
    entries: list[dict[str, Any]]
    if tensors or attributes:
        if not is_op(op):
            raise _kiln.UsageTypeError(
                f"op is {name_of(op) if op is not None else None}; tensors and attributes go with an op or a kiln.Kernel"
            )
        call = op_call(op, tensors, attributes)
        found = _kiln.tuning_entry_of(call.op, call.tensors, call.arguments)
        entries = [] if found is None else [found]
    else:
        entries = _kiln.tuning_entries(_database_name(op))
    wanted_dtype = None if dtype is None else _kiln.DType(dtype).name.removesuffix("_")
    wanted_shape = shape if shape is None or isinstance(shape, str) else "x".join(str(extent) for extent in shape)
    records = [
        TuningRecord(**{**entry, "date": datetime.datetime.fromisoformat(entry["date"].replace("Z", "+00:00"))})
        for entry in entries
        if (wanted_dtype is None or wanted_dtype in entry["dtypes"].split(", "))
        and (wanted_shape is None or wanted_shape in entry["shapes"].split(", "))
    ]
    return sorted(records, key=lambda record: record.date, reverse=True)


def _database_name(op: Any) -> str:
    """What the database has an op or a function under; empty for all."""
    if op is None:
        return ""
    if isinstance(op, str):
        return _kiln.op(op).name
    if isinstance(op, _kiln.Op):
        return op.name
    if is_op(op):
        return str(op.op_name)
    if callable(op):
        return qualified_name(op)
    raise _kiln.UsageTypeError(
        f"op is {op!r}; expected the name of an op, a kiln.Op, a kiln.Kernel, a function that was tuned, or None for all"
    )
