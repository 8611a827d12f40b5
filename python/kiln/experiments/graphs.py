"""What a graph saves of the cost of launches, by how long a kernel takes."""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import kiln
from kiln.experiments.launch_bytes import add_bus
from kiln.experiments.options import positive, several, size
from kiln.experiments.report import Claim, Report, Table
from kiln.experiments.spin import Spin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ways = dict[str, Callable[[], None]]

DURATIONS_US = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
SUBMITTED = (1, 2, 5, 10, 20, 50, 100, 200)  # calls of the graphs whose launch is timed on the host
MOST_US = 2e6  # of one way of one duration


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=size, default=200, metavar="N", help="kernels in a chain (default 200)")
    parser.add_argument(
        "--durations",
        type=several(positive),
        default=DURATIONS_US,
        metavar="US,...",
        help="microseconds that a kernel shall take (default 0.5 to 1000)",
    )
    parser.add_argument("--iters", type=size, default=20, metavar="N", help="rounds (default 20)")
    parser.add_argument("--warmup", type=size, default=2, metavar="N", help="rounds before those (default 2)")


class Clock:
    """The host's time of enqueuing something, and that of the whole, from an idle device to an idle device."""

    def __init__(self, stream: kiln.Stream) -> None:
        self.stream = stream
        self.start, self.stop = (kiln.Event(stream.device, timed=True) for _ in range(2))

    def measure(self, call: Callable[[], None]) -> tuple[float, float]:
        self.stream.synchronize()
        self.start.record(self.stream)
        started = time.perf_counter_ns()
        call()
        host_us = (time.perf_counter_ns() - started) / 1e3
        self.stop.record(self.stream)
        self.stream.synchronize()
        return host_us, self.start.elapsed_us(self.stop)


def captured(stream: kiln.Stream, body: Callable[[], None]) -> tuple[kiln.Graph, float]:
    """A graph of what `body` enqueues, and how many microseconds making it took."""
    started = time.perf_counter_ns()
    with kiln.capture(stream) as graph:
        body()
    return graph, (time.perf_counter_ns() - started) / 1e3


def ways_of(spin: Spin, steps: int, calls: int) -> tuple[Ways, float]:
    """How a chain can be enqueued, and what making its graph took."""
    resolved, kept, stream = spin.resolved(steps), spin.kept, spin.stream

    def dispatch() -> None:
        for _ in range(calls):
            spin.dispatch(steps)

    def call() -> None:
        for _ in range(calls):
            resolved(kept, stream=stream)

    dispatch()
    graph, capture_us = captured(stream, call)
    return {"dispatch": dispatch, "resolved": call, "graph": lambda: graph.launch(stream)}, capture_us


def in_turns(clock: Clock, ways: Ways, rounds: int, warmup: int) -> dict[str, tuple[float, float]]:
    """The medians of every way, in an order drawn anew for each round."""
    host: dict[str, list[float]] = {name: [] for name in ways}
    whole: dict[str, list[float]] = {name: [] for name in ways}
    order, shuffle = list(ways), random.Random(7).shuffle
    for turn in range(-warmup, rounds):
        shuffle(order)
        for name in order:
            host_us, whole_us = clock.measure(ways[name])
            if turn >= 0:
                host[name].append(host_us)
                whole[name].append(whole_us)
    return {name: (statistics.median(host[name]), statistics.median(whole[name])) for name in ways}


def duration_row(spin: Spin, clock: Clock, options: argparse.Namespace, duration_us: float) -> dict[str, Any]:
    """Times a call, of chains of kernels that take as long; fewer rounds where one takes long."""
    steps = spin.steps_of(duration_us)
    calls = max(1, min(options.calls, int(MOST_US / 20 / duration_us)))
    rounds = max(3, min(options.iters, int(MOST_US / (calls * duration_us))))
    ways, capture_us = ways_of(spin, steps, calls)
    times = in_turns(clock, ways, rounds, min(options.warmup, rounds))
    row: dict[str, Any] = {"asked_us": duration_us, "kernel_us": times["graph"][1] / calls, "calls": calls}
    for name, (host_us, whole_us) in times.items():
        row[f"{name}_host_us"], row[f"{name}_us"] = host_us / calls, whole_us / calls
    for name in ("dispatch", "resolved"):
        row[f"over_{name}"] = times[name][1] / times["graph"][1]
    saved_us = times["resolved"][0] - times["graph"][0]
    row["capture_us"] = capture_us
    row["pays_after"] = -(-capture_us // saved_us) if saved_us > 0 else None
    return row


def fitted_overhead(rows: list[dict[str, Any]], name: str) -> float:
    """The o of 1 + o / t that comes nearest to what graphs gained, in the sense of least squares."""
    t = np.array([row["kernel_us"] for row in rows])
    gain = np.array([row[f"over_{name}"] for row in rows])
    return max(0.0, float(np.sum((gain - 1) / t) / np.sum(1 / t**2)))


def submissions(spin: Spin, clock: Clock, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The host's microseconds of one launch of graphs of a few and of many calls, and of as many resolved calls."""
    rows = []
    for calls in SUBMITTED:
        ways, _ = ways_of(spin, 1, calls)
        times = in_turns(clock, ways, options.iters, options.warmup)
        rows.append({"calls": calls, "graph_host_us": times["graph"][0], "resolved_host_us": times["resolved"][0]})
    return rows


def bus_ways(spin: Spin, calls: int) -> dict[str, tuple[int, Callable[[], None]]]:
    """The shortest kernel enqueued in each way, a graph of one alone too: kernels of a call, and the call."""
    chain, one = (ways_of(spin, 1, count)[0] for count in (calls, 1))
    ways = {name: (calls, call) for name, call in chain.items()}
    return {**ways, "graph of one": (1, one["graph"])}


def line_through(rows: list[dict[str, Any]], column: str) -> tuple[float, float]:
    """(fixed, for each call) microseconds, by least squares."""
    each, fixed = np.polyfit([row["calls"] for row in rows], [row[column] for row in rows], 1)
    return float(fixed), float(each)


def run(options: argparse.Namespace) -> Report:
    stream = kiln.Stream(options.device)
    spin, clock = Spin(options.device, stream), Clock(stream)
    name = next(row["name"] for row in kiln.devices() if row["device"] == options.device)
    report = Report("graphs", name, {"calls": options.calls, "iters": options.iters})
    rows = [duration_row(spin, clock, options, duration) for duration in options.durations]
    columns = ["kernel_us", "calls", "dispatch_us", "resolved_us", "graph_us", "over_dispatch", "over_resolved"]
    report.tables["durations"] = Table(
        "microseconds a call of the whole chain, and times faster as a graph, over a kernel's duration",
        columns,
        rows,
    )
    hosts = ["kernel_us", "dispatch_host_us", "resolved_host_us", "graph_host_us", "capture_us", "pays_after"]
    report.tables["host"] = Table(
        "the host's microseconds a call, those of making the graph, and the replays after which it has paid",
        hosts,
        rows,
    )
    launched = submissions(spin, clock, options)
    report.tables["submissions"] = Table("the host's microseconds of a submission", list(launched[0]), launched)
    overheads = {way: fitted_overhead(rows, way) for way in ("dispatch", "resolved")}
    report.data["overhead_us"] = overheads
    report.data["submission_us"] = {
        column.removesuffix("_host_us"): line_through(launched, column)
        for column in ("graph_host_us", "resolved_host_us")
    }
    fixed, each = report.data["submission_us"]["graph"]
    report.notes.append(
        f"A graph gains 1 + o / t: o is {overheads['dispatch']:.2f} us over dispatch and {overheads['resolved']:.2f} us over "
        f"resolved calls. Launching a graph costs the host {fixed:.2f} us, and {each:.3f} us for each call in it."
    )
    if options.device != "cpu":
        add_bus(report, options.device, stream, bus_ways(spin, options.calls))
    else:
        report.notes.append(
            "On the CPU a graph is the list of its calls, and the host does their work: it saves what Python and the "
            "dispatcher do for each."
        )
    first, last = rows[0], rows[-1]
    report.claims.append(
        Claim(
            "gain of a graph over launches, falling as 1 + o / t",
            "large for kernels of some us, none for long ones",
            f"{first['over_dispatch']:.2f} at {first['kernel_us']:.2g} us, {last['over_dispatch']:.2f} at "
            f"{last['kernel_us']:.0f} us",
        )
    )
    return report


def draw(report: Report, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    rows = report.tables["durations"].rows
    times = [row["kernel_us"] for row in rows]
    curve = np.geomspace(min(times), max(times), 100)
    for color, (way, overhead) in zip(("C0", "C1"), report.data["overhead_us"].items()):
        left.plot(times, [row[f"over_{way}"] for row in rows], "o", color=color, label=f"over {way}")
        left.plot(curve, 1 + overhead / curve, "-", lw=1, color=color, label=f"1 + {overhead:.2f} us / t")
    left.axhline(1, color="gray", lw=0.8)
    left.set(xscale="log", xlabel="a kernel's duration, us", ylabel="times faster as a graph")
    left.legend(fontsize=8)
    launched = report.tables["submissions"].rows
    for color, way in zip(("C2", "C1"), ("graph", "resolved")):
        fixed, each = report.data["submission_us"][way]
        calls = [row["calls"] for row in launched]
        right.plot(calls, [row[f"{way}_host_us"] for row in launched], "o", color=color, label=way)
        right.plot(calls, [fixed + each * count for count in calls], "-", lw=1, color=color)
    right.set(xlabel="calls", ylabel="the host's microseconds of a submission")
    right.legend(fontsize=8)
