"""The decode loop of a small engine: tokens a second by slices and cats, and with a launch each."""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import kiln
from kiln.experiments import trace_sql
from kiln.experiments.decode_engine import Engine
from kiln.experiments.options import count, size
from kiln.experiments.report import Claim, Report, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REGIONS = ("append", "gather", "attention")
MOST_OFF = 1e-2  # of results of about 1: a GPU may multiply in tf32
GIB = 1 << 30


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=size, default=12, metavar="N", help="layers (default 12)")
    parser.add_argument("--bs", type=size, default=16, metavar="N", help="requests (default 16)")
    parser.add_argument("--context", type=size, default=512, metavar="N", help="most tokens of a request (default 512)")
    parser.add_argument("--page", type=size, default=16, metavar="N", help="tokens of a page (default 16)")
    parser.add_argument("--heads", type=size, default=8, metavar="N", help="heads (default 8)")
    parser.add_argument("--dim", type=size, default=64, metavar="N", help="numbers of a head, f32 (default 64)")
    parser.add_argument("--steps", type=size, default=8, metavar="N", help="tokens of each request (default 8)")
    parser.add_argument("--iters", type=size, default=3, metavar="N", help="rounds (default 3)")
    parser.add_argument("--warmup", type=count, default=1, metavar="N", help="rounds before those (default 1)")
    parser.add_argument("--trace", metavar="FILE.json", help="keep the trace of one round of each, for ui.perfetto.dev")


def check(options: argparse.Namespace) -> None:
    """Before anything is allocated."""
    if options.dim > 256:
        raise kiln.UsageValueError(f"--dim is {options.dim}; attention takes heads of up to 256 numbers")
    tokens = options.bs * (options.context + options.steps + options.page)
    needed = 3 * 2 * 4 * options.layers * tokens * options.heads * options.dim
    free = kiln.memory_usage("cpu").available_bytes
    if needed > free:
        raise kiln.UsageValueError(
            f"{needed / GIB:.1f} GiB of memory are needed and {free / GIB:.1f} are free; give fewer --bs, --layers or a "
            "shorter --context"
        )
    if options.trace is not None and not pathlib.Path(options.trace).resolve().parent.is_dir():
        raise kiln.UsageValueError(f"--trace: there is no directory for '{options.trace}'")


def all_steps(engine: Engine, step: Callable[[int], list[Any]]) -> tuple[float, list[Any]]:
    """Seconds of all steps, and the last one's results."""
    engine.reset()
    started, results = time.perf_counter(), []
    for number in range(engine.steps):
        results = step(number)
    kiln.synchronize()
    return time.perf_counter() - started, results


def as_numpy(results: list[Any]) -> Any:
    """[layers, B, H, D], of whichever library."""
    arrays = [np.asarray(result.cpu() if hasattr(result, "cpu") else result) for result in results]
    return np.stack([array.reshape(array.shape[0], -1) for array in arrays])


def profiled(engine: Engine, step: Callable[[int], list[Any]], path: str) -> list[dict[str, Any]]:
    """Milliseconds of a step's regions, whose ends wait for the device, and what SQL finds in the trace."""
    engine.is_profiled = True
    with kiln.profile(trace=path) as profiler:
        all_steps(engine, step)
    engine.is_profiled = False
    regions = {row.path.rpartition("/")[2]: row.time.total_us / 1e3 / engine.steps for row in profiler.report().regions}
    return [{"region": name, "ms_a_step": regions[name]} for name in REGIONS if name in regions]


def run(options: argparse.Namespace) -> Report:
    check(options)
    name = next(row["name"] for row in kiln.devices() if row["device"] == options.device)
    settings = {key: getattr(options, key) for key in ("layers", "bs", "context", "page", "heads", "dim", "steps")}
    report = Report("decode", name, settings)
    engine = Engine(options)
    ways = {way: step for way, step in engine.ways().items() if not isinstance(step, str)}
    for way, step in engine.ways().items():
        if isinstance(step, str):
            report.notes.append(f"{way}: {step}")
    times: dict[str, list[float]] = {way: [] for way in ways}
    expected = None
    for turn in range(-options.warmup - 1, options.iters):
        for way, step in ways.items():
            seconds, results = all_steps(engine, step)
            got = as_numpy(results)
            expected = got if expected is None else expected
            off = float(np.abs(got - expected).max())
            if not off < MOST_OFF:
                raise kiln.InternalError(f"decode, {way}: results differ by {off:.1e} from the first way's")
            if turn >= 0:
                times[way].append(seconds)
    rows = rows_of(options, times)
    report.tables["decode"] = Table(
        f"{options.bs} requests of {options.context // 2} to {options.context} tokens, {options.layers} layers",
        ["way", "ms_a_step", "tokens_a_second", "times_sliced"],
        rows,
    )
    add_profiles(options, engine, ways, report)
    by_way = {row["way"]: row for row in rows}
    if "slices and cats" in by_way:
        best = max(rows, key=lambda row: row["tokens_a_second"])
        report.claims.append(
            Claim(
                "tokens a second, by slices and cats and with launches",
                "no figure was given",
                f"{by_way['slices and cats']['tokens_a_second']:.0f} and {best['tokens_a_second']:.0f} ({best['way']})",
            )
        )
    return report


def rows_of(options: argparse.Namespace, times: dict[str, list[float]]) -> list[dict[str, Any]]:
    medians = {way: statistics.median(taken) for way, taken in times.items()}
    sliced = medians.get("slices and cats")
    return [
        {
            "way": way,
            "ms_a_step": seconds * 1e3 / options.steps,
            "tokens_a_second": options.bs * options.steps / seconds,
            "times_sliced": sliced / seconds if sliced else None,
        }
        for way, seconds in medians.items()
    ]


def add_profiles(
    options: argparse.Namespace, engine: Engine, ways: dict[str, Callable[[int], list[Any]]], report: Report
) -> None:
    """Where the time goes; the last trace, which SQL is asked about, is of the way with launches."""
    order = sorted(ways.items(), key=lambda item: item[0].startswith("gather"))
    with tempfile.TemporaryDirectory() as folder:
        path = options.trace or str(pathlib.Path(folder) / "trace.json")
        regions = [{"way": way, **row} for way, step in order for row in profiled(engine, step, path)]
        database = trace_sql.open_trace(path)
        within = [
            {"region": region, **row}
            for region in REGIONS
            for row in trace_sql.query(database, trace_sql.WITHIN_REGION.format(region=region))
        ]
        categories = trace_sql.query(database, trace_sql.BY_CATEGORY)
    report.tables["regions"] = Table(
        "where a step's time goes, in a profile whose regions wait for the device",
        ["way", "region", "ms_a_step"],
        regions,
    )
    report.tables["within"] = Table(
        "SQL over the trace of a launch each: ops called within a region", ["region", "name", "calls", "ms"], within
    )
    report.tables["categories"] = Table("and all of it by category", ["category", "slices", "ms"], categories)
    report.data["sql"] = {"within": trace_sql.WITHIN_REGION, "by_category": trace_sql.BY_CATEGORY}


def draw(report: Report, figure: Figure) -> None:
    left, right = figure.subplots(2, 1)
    rows = report.tables["decode"].rows
    bars = left.barh([row["way"] for row in rows], [row["tokens_a_second"] for row in rows])
    left.bar_label(bars, [f"{row['tokens_a_second']:.0f}" for row in rows], padding=3, fontsize=8)
    left.set(xlabel="tokens a second")
    left.invert_yaxis()
    ways = [row["way"] for row in rows]
    start = dict.fromkeys(ways, 0.0)
    for region in REGIONS:
        spans = {row["way"]: row["ms_a_step"] for row in report.tables["regions"].rows if row["region"] == region}
        right.barh(ways, [spans.get(way, 0.0) for way in ways], left=[start[way] for way in ways], label=region)
        for way, ms in spans.items():
            start[way] += ms
    right.set(xlabel="ms of a step")
    right.invert_yaxis()
    right.legend(fontsize=8)
