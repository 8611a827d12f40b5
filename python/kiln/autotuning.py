"""Looking for the fastest config of a call, from Python."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from kiln import _kiln
from kiln.argument import check_bool, check_integer, check_number, check_text
from kiln.function_call import function_call
from kiln.op_call import is_op, name_of, op_call, takes_by_name
from kiln.progress import make_progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


class TuningTable(Sequence[Row]):
    """What a tuning found out: the candidates that had their turn, best first, and the choice.

    Each candidate is a dict, so that ``pandas.DataFrame(table)`` works:

    ============= ==========================================================================================
    rank          place by median, from 1, those of the playoff first; None without a time
    config        the tunables, a dict
    median_us     microseconds of a call, None when it was not measured
    low_us        the median's 95% interval; None when there are too few samples to tell
    high_us
    relative      the time over the default's, measured side by side: 0.8 takes a fifth less
    samples       how many samples count
    outcome       "measured", "cut" (clearly slower), "uncompiled", "unlaunched", "mismatched" or "hung"
    reason        why it was cut, or how it failed; empty for the others
    is_chosen     later calls of this kind take it
    is_default    what a call takes that was never tuned
    ============= ==========================================================================================
    """

    def __init__(self, report: Mapping[str, Any], text: str) -> None:
        #: Everything as ``kiln tune --json`` has it, for kiln.plot_tuning and for keeping.
        self.report = dict(report)
        self._text = text
        rows = [self._row(tried) for tried in self.report["tried"]]
        self._rows = sorted(rows, key=lambda row: row["rank"] or len(rows) + 1)

    def _row(self, tried: Mapping[str, Any]) -> Row:
        low_us, high_us = tried.get("interval_us", (None, None))
        relative = tried.get("relative")
        return {
            "rank": tried.get("rank") or None,
            "config": tried["config"],
            "median_us": tried.get("median_us"),
            "low_us": low_us,
            "high_us": high_us,
            "relative": sum(relative) / 2 if relative else None,
            "samples": tried.get("samples", 0),
            "outcome": tried["outcome"],
            "reason": tried.get("reason", ""),
            "is_chosen": tried["config"] == self.report["config"],
            "is_default": tried["config"] == self.report["default_config"],
        }

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def _only(self, flag: str) -> Row:
        return next(row for row in self._rows if row[flag])

    @property
    def chosen(self) -> Row:
        """The candidate that later calls take."""
        return self._only("is_chosen")

    @property
    def default(self) -> Row:
        """The candidate that a call takes which was never tuned."""
        return self._only("is_default")

    @property
    def gain(self) -> float:
        """How many times as fast the choice is as the default; 1.0 when the default stays."""
        chosen, default = self.chosen, self.default
        if chosen is default or not chosen["median_us"] or not default["median_us"]:
            return 1.0
        return float(default["median_us"] / chosen["median_us"])

    @property
    def gain_interval(self) -> tuple[float, float]:
        """Where the gain lies with 95% confidence, the two measured side by side."""
        low, high = self.report["relative"]
        return 1 / high, 1 / low

    @property
    def verdict(self) -> str:
        """One sentence: why this one."""
        return str(self.report["verdict"])

    @property
    def elapsed_s(self) -> float:
        """How long the tuning took."""
        return float(self.report["elapsed_s"])

    @property
    def complete(self) -> bool:
        """Whether the search came to its end within its budget."""
        return bool(self.report["complete"])

    def to_dict(self, orient: str = "records") -> list[Row] | dict[str, list[Any]]:
        """The candidates as plain data.

        Parameters
        ----------
        orient
            ``"records"``: a list of dicts. ``"list"``: a dict of columns. ``pandas.json_normalize(table.to_dict())``
            makes a column of every tunable.
        """
        if orient == "records":
            return [dict(row) for row in self._rows]
        if orient == "list":
            return {name: [row[name] for row in self._rows] for name in self._rows[0]} if self._rows else {}
        raise _kiln.UsageValueError(f"orient is {orient!r}; expected 'records' or 'list'")

    def plot(self, path: str | None = None) -> Figure:
        """Draws every config's time: kiln.plot_tuning."""
        from kiln.plot import plot_tuning

        return plot_tuning(self, path)

    def __repr__(self) -> str:
        return f"{self.report['op']} {self.report['dtypes']} {self.report['shapes']}\n{self._text}".rstrip()

    def _repr_html_(self) -> str:
        """The best ten for notebooks."""
        columns = ("rank", "config", "median_us", "low_us", "high_us", "relative", "samples", "outcome", "reason")
        head = "".join(f"<th>{name}</th>" for name in columns)
        shown = [row for i, row in enumerate(self._rows) if i < 10 or row["is_chosen"] or row["is_default"]]
        body = "".join(_html_row(row, columns) for row in shown)
        report = self.report
        title = html.escape(f"{report['op']} {report['dtypes']} {report['shapes']} on {report['device']}")
        verdict = html.escape(self.verdict)
        return f"<p><b>{title}</b><br>{verdict}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_row(row: Row, columns: Sequence[str]) -> str:
    cells = "".join(f"<td>{html.escape(_cell(row[name]))}</td>" for name in columns)
    style = (
        " style='font-weight: bold'" if row["is_chosen"] else " style='font-style: italic'" if row["is_default"] else ""
    )
    return f"<tr{style}>{cells}</tr>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return " ".join(f"{name}={setting}" for name, setting in value.items())
    return str(value)


def _warn_hung(config: Mapping[str, int], is_default: bool) -> None:
    """Called on another thread, while the tuning waits for a kernel that may never return."""
    what = f"kiln: config {_cell(dict(config))} has not returned in time; "
    if is_default:
        what += "it is the default, and without it there is nothing to compare the others with.\n"
    else:
        what += (
            "it is recorded as hung. If the process stays stuck, end it: the same autotune goes on without that "
            "config.\n"
        )
    sys.stderr.write(what)


def autotune(
    op: Any,
    *tensors: object,
    configs: Sequence[Mapping[str, int]] | None = None,
    budget_s: float = 30.0,
    strategy: str = "automatic",
    seed: int | None = None,
    measuring: str | None = None,
    record: bool = True,
    resume: bool = True,
    progress: bool | Callable[[Mapping[str, Any]], object] = True,
    stream: object = None,
    **attributes: object,
) -> TuningTable:
    """Finds the fastest config of a call, and keeps it: later calls of the same kind, in any process, use it.

    The tensors are only read: results, and copies of inputs that the op changes, are in memory of the tuning's own.
    Every candidate's output is compared with the default's before it is timed.

    A function of one's own is tuned over a list: ``function(config, *tensors, **attributes)`` is called with one config
    after the other, as a dict. The first that works is its default; arrays that it returns are compared with those of
    the default. Tensors that it changes stay changed. What was found is kept by the function's name and code, the
    arrays' dtypes and shapes, and the other arguments: kiln.tuned_config gives it back.

    Parameters
    ----------
    op
        The name of an op, a kiln.Op, a kiln.Kernel, or a function that takes a config first.
    tensors
        The call's tensors, as the op or kernel takes them; a function's arguments of any kind.
    configs
        What to choose from: dicts of integers by name. None: the op's or kernel's whole space. Of an op or kernel the
        default takes part as well, and tunables that a config leaves out have the default's values; all that is listed
        is tried, and what cannot be compiled or run is in the table with the reason.
    budget_s
        Seconds at most, but for what is under way when they end.
    strategy
        ``"automatic"`` (which tries each of ``configs``), ``"exhaustive"``, ``"halving"``, ``"evolutionary"`` or ``"likeliest"``.
    seed
        Of strategies that sample the space (0); an op or kernel that takes a ``seed`` is given it too.
    measuring
        On a GPU ``"eager"`` or ``"graph"``, and caches ``"flushed"`` or ``"hot"``: ``"graph, hot"``. None: eager,
        flushed. On the CPU calls are made one by one over hot caches.
    record
        Keep the result, on disk and in this process.
    resume
        Go on from a search of this call that was stopped less than a day ago.
    progress
        True: a bar (tqdm's where it is installed) on a terminal or in a notebook. False: none. Or a callable that takes
        a dict: phase, candidates, tried, failed, default_us, best, best_us, elapsed_s, budget_s.
    stream
        As in a call.
    attributes
        The op's attributes, tensors may be given by name too; a function's arguments by name.

    Returns
    -------
    TuningTable
        The candidates with their times, the choice, and why.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As a call; for a budget that is not above 0, an empty list of configs, one with tunables that the op does not
        have, one of which no config works.
    KeyboardInterrupt
        On Ctrl-C, after what was found has been recorded: the same call goes on from there. Where it ends a function,
        nothing is recorded.
    """
    check_number("budget_s", budget_s)
    check_text("strategy", strategy)
    check_integer("seed", seed, least=0)
    check_text("measuring", measuring, or_none=True)
    check_bool("record", record)
    check_bool("resume", resume)
    if not is_op(op) and callable(op):
        if configs is None:
            raise _kiln.UsageTypeError(
                f"configs is missing: {name_of(op)} is a function, so give the list of dicts that it may be called with"
            )
        function = function_call(op, tensors, attributes)

        def tune(**choices: Any) -> tuple[str, str]:
            return _kiln.tune_function(function, **choices)

    else:
        if seed is not None and takes_by_name(op, len(tensors), "seed"):
            attributes["seed"] = seed
        call = op_call(op, tensors, attributes)

        def tune(**choices: Any) -> tuple[str, str]:
            return _kiln.tune_op(call.op, call.tensors, call.arguments, **choices)

    shown = make_progress(progress, f"tuning {name_of(op)}")
    try:
        report, text = tune(
            configs=configs,
            budget_s=budget_s,
            strategy=strategy,
            seed=seed or 0,
            measuring=measuring,
            record=record,
            resume=resume,
            stream=stream,
            progress=shown.update,
            hung=_warn_hung,
        )
    finally:
        shown.close()
    return TuningTable(json.loads(report), text)


def tuned_config(
    function: Callable[..., Any],
    *arguments: object,
    configs: Sequence[Mapping[str, int]],
    **named: object,
) -> dict[str, int] | None:
    """The config that kiln.autotune found for a call of a function, here or in another process; None where it has not
    looked for one::

        config = kiln.tuned_config(scaled, x, configs=CONFIGS) or CONFIGS[0]
        scaled(config, x)

    Parameters
    ----------
    function, arguments, configs, named
        As kiln.autotune was given them: another list is another question.

    Raises
    ------
    ValueError, TypeError
        For a list of configs that kiln.autotune refuses. What an op's call takes says ``kiln.resolve(...).report``.
    """
    if is_op(function):
        raise _kiln.UsageTypeError(
            f"{name_of(function)} is an op, whose calls take what was tuned by themselves; kiln.resolve(...).report.config "
            "tells which"
        )
    return _kiln.tuned_config(function_call(function, arguments, named), configs)
