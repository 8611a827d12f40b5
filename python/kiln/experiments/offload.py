"""Pinned memory, copies that are waited for or not, and layers that are loaded beside compute."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import kiln
from kiln.experiments.offload_copies import mistakes, small_copies, tensor_copies
from kiln.experiments.offload_layers import Timelines, layer_times
from kiln.experiments.options import count, positive, several, shape, size
from kiln.experiments.report import Claim, Report, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GPU_SHAPE, CPU_SHAPE = (1, 16800, 1536), (1, 1680, 1536)
STAGES = {"load": 2, "compute": 1, "store": 0}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tensors", type=size, default=60, metavar="N", help="tensors that are copied (default 60)")
    parser.add_argument("--layers", type=size, default=30, metavar="N", help="layers that are run (default 30)")
    parser.add_argument(
        "--shape", type=shape, default=None, help="of each, in f16 (default 1x16800x1536; on the CPU a tenth)"
    )
    parser.add_argument(
        "--share", type=positive, default=1.0, metavar="X", help="compute, of the time of a load (default 1)"
    )
    parser.add_argument("--depths", type=several(size), default=[1, 2, 3, 4], metavar="N,...", help="of the pipeline")
    parser.add_argument("--small", type=size, default=1000, metavar="N", help="small copies (default 1000)")
    parser.add_argument("--small-bytes", type=size, default=4096, metavar="N", help="of each (default 4K)")
    parser.add_argument("--iters", type=size, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument("--warmup", type=count, default=1, metavar="N", help="rounds before those (default 1)")


def check(options: argparse.Namespace) -> None:
    """Before anything is allocated: whether the tensors fit."""
    if options.shape is None:
        options.shape = GPU_SHAPE if options.device != "cpu" else CPU_SHAPE
    elements = 1
    for extent in options.shape:
        elements *= extent
    if len(options.shape) < 2 or elements < 2:
        raise kiln.UsageValueError("--shape: expected two extents or more, such as 1x16800x1536")
    options.tensor_bytes = 2 * elements
    needed = options.tensor_bytes * max(2 * options.tensors, 3 * options.layers)
    free = kiln.memory_usage("cpu").available_bytes
    if needed > free:
        raise kiln.UsageValueError(
            f"{needed / 2**30:.1f} GiB of the host's memory are needed and {free / 2**30:.1f} are free; "
            "give fewer --tensors and --layers, or a smaller --shape"
        )


def run(options: argparse.Namespace) -> Report:
    check(options)
    name = next(row["name"] for row in kiln.devices() if row["device"] == options.device)
    settings = {
        "tensors": options.tensors,
        "layers": options.layers,
        "shape": "x".join(map(str, options.shape)),
        "MB": round(options.tensor_bytes / 1e6, 1),
    }
    report = Report("offload", name, settings)
    copies = tensor_copies(options)
    report.tables["copies"] = Table(
        "a tensor's copy, making its memory included: mean and deviation",
        ["direction", "memory", "mean_us", "deviation_us", "gb_s"],
        copies,
    )
    report.tables["small"] = Table(
        f"{options.small} copies of {options.small_bytes} bytes to the device, by memory and by when the host waits",
        ["memory", "waits", "us_a_copy", "host_us_a_copy"],
        small_copies(options),
    )
    report.tables["mistakes"] = Table(
        "what a missing wait does: the memory is used as soon as the copy was enqueued",
        ["direction", "memory", "mistake", "wrong_bytes", "verdict"],
        mistakes(options),
    )
    rows, timelines, compute = layer_times(options)
    settings["compute"] = compute
    report.tables["layers"] = Table(
        f"{options.layers} layers, each of which is loaded, computed ({compute}), and stored",
        ["schedule", "ms", "deviation_ms", "times_sequential", "of_slowest_stage", "copies_beside_compute"],
        rows,
    )
    report.data["timelines"] = timelines
    by_name = {row["schedule"]: row for row in rows}
    best = max(
        (row for name, row in by_name.items() if name.startswith("pipeline")), key=lambda row: row["times_sequential"]
    )
    report.claims.append(
        Claim(
            "30 layers, compute about as long as a load: sequential and pipelined",
            "178 ms and 90.5 ms, 1.97 times",
            f"{by_name['sequential']['ms']:.1f} ms and {best['ms']:.1f} ms, {best['times_sequential']:.2f} times ({best['schedule']})",
        )
    )
    if options.device == "cpu":
        report.notes.append(
            "On the CPU both sides of a copy are the same memory and the host does all work itself, so nothing is page-locked "
            "and nothing overlaps: what is left to see are the cost of copies and that every schedule gives the same result."
        )
    return report


def drawn_timelines(report: Report) -> Timelines:
    """Those that a picture has room for: of pipelines the first one's and the fastest one's."""
    layers = [row for row in report.tables["layers"].rows if row["schedule"] in report.data["timelines"]]
    pipelines = [row["schedule"] for row in layers if row["schedule"].startswith("pipeline")]
    fastest = min(layers, key=lambda row: (row["schedule"] not in pipelines, row["ms"]))["schedule"]
    return {
        name: spans
        for name, spans in report.data["timelines"].items()
        if name not in pipelines or name in (pipelines[0], fastest)
    }


def draw(report: Report, figure: Figure) -> None:
    timelines = drawn_timelines(report)
    grid = figure.add_gridspec(1 + len(timelines), 2, height_ratios=[3, *(1 for _ in timelines)])
    left, right = (figure.add_subplot(grid[0, column]) for column in (0, 1))
    copies = report.tables["copies"].rows
    bars = left.barh([f"{row['memory']}, {row['direction']}" for row in copies], [row["gb_s"] for row in copies])
    left.bar_label(bars, [f"{row['gb_s']:.1f}" for row in copies], fontsize=7, padding=2)
    left.set(xlabel="GB/s", xlim=(0, 1.15 * max(row["gb_s"] for row in copies)))
    left.tick_params(axis="y", labelsize=7)
    left.invert_yaxis()
    layers = report.tables["layers"].rows
    bars = right.barh([row["schedule"] for row in layers], [row["ms"] for row in layers])
    right.bar_label(bars, [f"x{row['times_sequential']:.2f}" for row in layers], fontsize=7, padding=2)
    right.set(xlabel="ms", xlim=(0, 1.15 * max(row["ms"] for row in layers)))
    right.tick_params(axis="y", labelsize=7)
    right.invert_yaxis()
    for row, (name, spans) in enumerate(timelines.items(), start=1):
        axes = figure.add_subplot(grid[row, :])
        for stage, place in STAGES.items():
            bars_of_stage = [(start, stop - start) for kind, start, stop in spans if kind == stage]
            axes.broken_barh(bars_of_stage, (place - 0.4, 0.8), color=f"C{place}", edgecolor="white", lw=0.2)
        axes.set_yticks(list(STAGES.values()), list(STAGES), fontsize=7)
        axes.set(ylim=(-0.6, 2.6), xlim=(0, max(stop for spans in timelines.values() for _, _, stop in spans)))
        axes.tick_params(axis="x", labelsize=7)
        axes.set_title(f"{name}, ms", fontsize=8)
