"""Timing one op, or any callable, over a list of sizes."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

from kiln import _kiln
from kiln.benchmarking import Benchmark, benchmark
from kiln.op_call import name_of


class SweepTable(Sequence[dict[str, Any]]):
    """What a sweep measured: a dict for each size, smallest first, so that ``pandas.DataFrame(table)`` works.

    Each has ``size`` and what ``Benchmark.to_dict`` has, among it ``median_us``, ``low_us`` and ``high_us``, ``gb_s``,
    ``tflop_s``, ``config`` and ``config_source``.
    """

    def __init__(self, name: str, sizes: Sequence[int], benchmarks: Sequence[Benchmark], ended: str) -> None:
        self.name = name
        #: A kiln.Benchmark for each size.
        self.benchmarks = list(benchmarks)
        #: Why larger sizes are not there; empty where all are.
        self.ended = ended
        self._rows = [{"size": size, **timed.to_dict()} for size, timed in zip(sizes, benchmarks)]

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Sequence[dict[str, Any]]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def _cells(self) -> list[list[str]]:
        cells = [["size", "median", "GB/s", "TFLOP/s", "config"]]
        for row in self._rows:
            config = " ".join(f"{name}={value}" for name, value in (row["config"] or {}).items())
            rates = [f"{row[rate]:.4g}" if row[rate] else "-" for rate in ("gb_s", "tflop_s")]
            source = f" ({row['config_source']})" if config else "-"
            cells.append([str(row["size"]), f"{row['median_us']:.4g} us", *rates, config + source])
        return cells

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
        device = self.benchmarks[0].device_name if self.benchmarks else ""
        ended = [f"the sweep ends here: {self.ended}"] if self.ended else []
        return "\n".join([f"{self.name} on {device}", *lines, *ended])

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        ended = f"<p>the sweep ends here: {html.escape(self.ended)}</p>" if self.ended else ""
        columns = "".join(f"<th>{cell}</th>" for cell in head)
        return f"<p><b>{html.escape(self.name)}</b></p><table><tr>{columns}</tr>{body}</table>{ended}"


def sweep(
    op: Any,
    sizes: Iterable[int],
    arguments: Callable[[int], Any],
    *,
    budget_s: float = 0.5,
    total_s: float | None = None,
    **options: Any,
) -> SweepTable:
    """Times calls of an op, or of any callable, at each of some sizes::

        kiln.sweep("softmax", [256, 1000, 4096], lambda n: numpy.ones((n, n), numpy.float32), dim=1)

    ``kiln bench OP --sweep`` does the same with random inputs, beside what the memory was measured to give.

    Parameters
    ----------
    op
        As kiln.benchmark takes it.
    sizes
        Whole numbers above 0, in any order: the smallest is measured first.
    arguments
        What makes the arguments of a call from a size: it returns one array, or a tuple of them, whose last item may be
        a dict of arguments by name. It is called just before that size is measured.
    budget_s
        Seconds at most for the samples of a size.
    total_s
        Seconds for all sizes together: one that would take longer than is left, as far as can be told from those before
        it, ends the sweep. None: a minute, or twice ``budget_s`` for each size where that is more.
    options
        What else kiln.benchmark takes: ``config``, ``tuning``, ``graph``, attributes by name.

    Returns
    -------
    SweepTable
        A row for each size; ``ended`` says why larger ones are not there.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As kiln.benchmark; for sizes that are no whole numbers above 0, and none at all.
    """
    ordered = _checked(sizes)
    if not callable(arguments):
        raise _kiln.UsageTypeError(
            f"arguments is a {type(arguments).__name__}; expected a function that makes the arrays of a size"
        )
    name = name_of(op)
    budget = _kiln.SweepBudget(total_s, budget_s, len(ordered))
    benchmarks: list[Benchmark] = []
    ended = ""
    for size in ordered:
        too_long = budget.begin(size)
        if too_long:
            ended = f"{size}: {too_long}; total_s gives more"
            break
        tensors, named = _parts(arguments(size))
        timed = benchmark(op, *tensors, budget_s=budget_s, **{**options, **named})
        budget.end(timed.median_us)
        benchmarks.append(timed)
    return SweepTable(name, ordered, benchmarks, ended)


def _checked(sizes: Iterable[int]) -> list[int]:
    if isinstance(sizes, (str, bytes, Mapping)) or not isinstance(sizes, Iterable):
        raise _kiln.UsageTypeError(f"sizes is {sizes!r}; expected a list of whole numbers")
    checked: set[int] = set()
    for size in sizes:
        if not hasattr(size, "__index__") or isinstance(size, bool):
            raise _kiln.UsageTypeError(f"sizes has {size!r}; expected whole numbers")
        if size < 1:
            raise _kiln.UsageValueError(f"sizes has {size}; expected numbers above 0")
        checked.add(size.__index__())
    if not checked:
        raise _kiln.UsageValueError("sizes is empty; expected one whole number or more")
    return sorted(checked)


def _parts(made: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Arguments by position, and by name."""
    items = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    if items and isinstance(items[-1], Mapping):
        return items[:-1], items[-1]
    return items, {}
