"""Pictures of tunings, sweeps and rooflines.

In the package: kiln.plot_tuning and kiln.plot_roofline. The kiln command embeds this file and starts it as
``python3 -c TEXT KIND INPUT.json OUTPUT.png``, KIND being tuning or sweep, so at its top it imports nothing but the standard library.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kiln.benchmarking import Benchmark

Report = Mapping[str, Any]


class Tuning(Protocol):
    """What a tuning found out: a kiln.TuningTable, whose module draws with this one."""

    @property
    def report(self) -> Report: ...


DEFAULT_COLOR, CHOSEN_COLOR = "C1", "C2"
LINEAR_RATIO = 4  # times that are closer than this are drawn on a linear axis, whose ticks are plain numbers


def new_figure(width: float, height: float, path: str | None) -> Figure:
    """A figure to save, or without a path one that pyplot knows and shows.

    Raises
    ------
    ImportError
        Where matplotlib is missing, saying how to get it.
    """
    try:
        if path is None:
            from matplotlib import pyplot

            return pyplot.figure(figsize=(width, height))
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise ImportError("plots need matplotlib, which is not installed: pip install kiln[plot]") from error
    return Figure(figsize=(width, height))


def finish(figure: Figure, path: str | None) -> Figure:
    """Lays the figure out, and writes it where a path is given."""
    figure.tight_layout()
    if path is not None:
        target = pathlib.Path(path)
        if not target.suffix:
            target = target.with_suffix(".png")
        image = io.BytesIO()
        figure.savefig(image, dpi=120, format=target.suffix[1:])
        write_whole(target, image.getvalue())
    return figure


def write_whole(path: pathlib.Path, content: bytes) -> None:
    """Writes a file that takes its place as a whole: where that fails, what was there stays, and nothing else is left."""
    if path.exists() and not path.is_file():  # /dev/stdout, a pipe
        path.write_bytes(content)
        return
    path = path.resolve()
    staging = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        staging.write_bytes(content)
        staging.replace(path)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise


def draw_times(axes: Axes, report: Report) -> None:
    """The time of every config that was measured, best first, with its 95% interval."""
    from matplotlib.ticker import MaxNLocator

    measured = [tried for tried in report["tried"] if "median_us" in tried]
    shortest_us = min((tried["median_us"] for tried in measured), default=0)
    unit, unit_us = ("ms", 1e3) if shortest_us >= 1e3 else ("us", 1)
    medians = [tried["median_us"] / unit_us for tried in measured]
    intervals = [
        [bound / unit_us for bound in tried["interval_us"]] if "interval_us" in tried else [median, median]
        for median, tried in zip(medians, measured)
    ]
    below = [max(median - low, 0) for median, (low, _) in zip(medians, intervals)]
    above = [max(high - median, 0) for median, (_, high) in zip(medians, intervals)]
    axes.errorbar(range(len(measured)), medians, [below, above], fmt=".", ms=4, lw=1)
    for key, label, color in (("default_config", "default", DEFAULT_COLOR), ("config", "chosen", CHOSEN_COLOR)):
        places = [i for i, tried in enumerate(measured) if tried["config"] == report[key]]
        axes.plot(places, [medians[i] for i in places], "o", ms=8, mfc="none", color=color, label=label)
    is_wide = bool(medians) and max(medians) > LINEAR_RATIO * min(medians)
    axes.set(yscale="log" if is_wide else "linear", ylabel=unit, xlabel="config, best first")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"{report['op']} {report['dtypes']} {report['shapes']}: {report['device']}", fontsize=9)
    axes.legend(fontsize=8)


def draw_rates(axes: Axes, report: Report) -> None:
    """The rate of the default config beside that of the chosen one."""
    is_compute_bound = report["flops"] > 2 * report["bytes"]
    work, unit = (report["flops"], "GFLOP/s") if is_compute_bound else (report["bytes"], "GB/s")
    times_us = {}
    for label, key in (("default", "default_config"), ("chosen", "config")):
        of_config = [tried for tried in report["tried"] if tried["config"] == report[key] and "median_us" in tried]
        if of_config:
            times_us[label] = of_config[0]["median_us"]
    rates = [work / us * 1e-3 for us in times_us.values()]
    axes.bar(list(times_us), rates, color=[DEFAULT_COLOR, CHOSEN_COLOR][: len(rates)])
    axes.set(ylabel=unit)


def draw_tuning(reports: Sequence[Report], path: str | None) -> Figure:
    """A row for each tuned call: its times, and its rates."""
    figure = new_figure(12, 3.4 * len(reports), path)
    rows = figure.subplots(len(reports), 2, squeeze=False, gridspec_kw={"width_ratios": [3, 1]})
    for (times, rates), report in zip(rows, reports):
        draw_times(times, report)
        draw_rates(rates, report)
    return finish(figure, path)


def draw_sweep(report: Report, path: str | None) -> Figure:
    """The rate at each size beside what was measured as the device's peak, and the time of a call."""
    points = report["points"]
    kind, unit, peak = "gb_s", "GB/s", report["peak_gb_s"]
    if report["is_compute_bound"]:
        kind, unit, peak = "tflop_s", "TFLOP/s", report["matmul_peak_tflop_s"]
    sizes = [point["data_bytes"] for point in points]
    figure = new_figure(11, 4.2, path)
    rates, times = figure.subplots(1, 2)
    rates.plot(sizes, [point[kind] for point in points], "o-", ms=4, color=CHOSEN_COLOR)
    rates.axhline(peak, color="0.3", lw=1, label=f"measured peak: {peak:.4g} {unit}")
    rates.set(xscale="log", ylabel=unit, ylim=(0, None))
    medians = [point["median_us"] for point in points]
    bounds = [point["interval_us"] or (point["median_us"], point["median_us"]) for point in points]
    below = [max(median - low, 0) for median, (low, _) in zip(medians, bounds)]
    above = [max(high - median, 0) for median, (_, high) in zip(medians, bounds)]
    times.errorbar(sizes, medians, [below, above], fmt=".-", ms=4, lw=1, color=DEFAULT_COLOR)
    times.set(xscale="log", yscale="log", ylabel="us")
    for axes in (rates, times):
        axes.set_xlabel("bytes of the call's tensors")
        axes.set_xscale("log", base=2)
        axes.grid(True, which="major", lw=0.3)
        if report["cache_bytes"] and sizes[0] < report["cache_bytes"] < sizes[-1]:
            axes.axvline(report["cache_bytes"], color="0.6", lw=1, ls="--", label="last-level cache")
    rates.legend(fontsize=8)
    figure.suptitle(f"{report['op']} {report['pattern']}: {report['device_name']} ({report['policy']})", fontsize=9)
    return finish(figure, path)


def plot_tuning(table: Tuning | Report | Sequence[Tuning | Report], path: str | None = None) -> Figure:
    """Draws every config's time, best first, with its interval, and the rate of the default beside the chosen one.

    Parameters
    ----------
    table
        What kiln.autotune returned, or a dict of ``kiln tune --json``; a list of these makes a row of each.
    path
        A file to write, .png, .svg or .pdf. None: the figure is left to pyplot, which notebooks show.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        Where matplotlib is missing.
    TypeError
        For what is no tuning.
    ValueError
        For an empty list.
    """
    from kiln.argument import listed

    def is_tuning(one: object) -> bool:
        return isinstance(getattr(one, "report", one), Mapping)

    tables = listed("table", table, is_tuning, "what kiln.autotune returned")
    if not tables:
        raise ValueError("there is no tuning to plot: the list is empty")
    return draw_tuning([getattr(one, "report", one) for one in tables], path)


def plot_roofline(
    benchmarks: Benchmark | Sequence[Benchmark],
    path: str | None = None,
    *,
    peak_gb_s: float | None = None,
    peak_tflop_s: float | None = None,
) -> Figure:
    """Draws what ops reach against what the device can do: work per byte across, TFLOP/s up, both in powers of ten.

    Parameters
    ----------
    benchmarks
        Of ops on one device, from kiln.benchmark. What takes no flops (a copy) is drawn by its rate, at the left edge.
    path
        A file to write. None: the figure is left to pyplot.
    peak_gb_s, peak_tflop_s
        The roofs. Left out, the memory's is what the device says of itself, and without that the rate of Kiln's copy of
        128 MiB, measured now; the arithmetic one is the rate of Kiln's f32 matmul of 2048^3, measured now.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        Where matplotlib is missing.
    TypeError
        For what is no benchmark.
    ValueError
        Without benchmarks, for benchmarks of several devices, and for callables, whose work is not known.
    """
    from kiln.argument import listed
    from kiln.benchmarking import Benchmark
    from kiln.roofline import Roofline, measure_roofline

    points = listed("benchmarks", benchmarks, lambda one: isinstance(one, Benchmark), "what kiln.benchmark returned")
    if not points:
        raise ValueError("there is no benchmark to plot: the list is empty")
    if len({point.device_name for point in points}) > 1:
        raise ValueError(
            f"benchmarks of several devices: {sorted({point.device_name for point in points})}; plot each alone"
        )
    for point in points:
        if not point.bytes:
            raise ValueError(f"{point.name} is no op: how many bytes and flops it takes is not known")
    new_figure(1, 1, "")  # says that matplotlib is missing before anything is measured
    measured = Roofline(peak_gb_s or points[0].peak_gb_s, peak_tflop_s)
    if measured.gb_s is None or measured.tflop_s is None:
        measured = measure_roofline(points[0].device, known=measured)
    return draw_roofline(points, measured, path)


def draw_roofline(points: Sequence[Benchmark], roof: Any, path: str | None) -> Figure:
    """Points under a roof."""
    figure = new_figure(8, 5.5, path)
    axes = figure.subplots()
    ridge = roof.tflop_s * 1e3 / roof.gb_s
    intensities = [point.flops / point.bytes for point in points if point.flops and point.bytes]
    left = min([ridge / 300, *(intensity / 3 for intensity in intensities)])
    right = max([ridge * 30, *(intensity * 3 for intensity in intensities)])
    axes.plot([left, ridge, right], [left * roof.gb_s * 1e-3, roof.tflop_s, roof.tflop_s], color="0.3", lw=1.5)
    label_roof(axes, left, ridge, right, roof)
    for i, point in enumerate(points):
        intensity = point.flops / point.bytes if point.flops and point.bytes else left
        height = point.tflop_s or left * (point.gb_s or 0) * 1e-3
        marker = "o" if point.flops else "<"
        legend = f"{point.name}: {point.gb_s:.4g} GB/s" + (
            f", {point.tflop_s * 1e3:.4g} GFLOP/s" if point.tflop_s else ""
        )
        axes.plot([intensity], [height], marker, color=f"C{i % 10}", label=legend, clip_on=False, zorder=3)
    axes.set(xscale="log", yscale="log", xlim=(left, right), xlabel="flops per byte", ylabel="TFLOP/s")
    axes.set_title(f"{points[0].device_name} ({points[0].policy})", fontsize=9)
    axes.grid(True, which="major", lw=0.3)
    axes.legend(fontsize=8, loc="lower right")
    return finish(figure, path)


def label_roof(axes: Axes, left: float, ridge: float, right: float, roof: Any) -> None:
    """Writes beside both roofs what they are."""
    middle = (left * ridge) ** 0.5
    for text, place, shift in (
        (f"{roof.gb_s:.4g} GB/s ({roof.gb_s_source})", (middle, middle * roof.gb_s * 1e-3), (-8, 4)),
        (f"{roof.tflop_s * 1e3:.4g} GFLOP/s ({roof.tflop_s_source})", (right, roof.tflop_s), (-4, 4)),
    ):
        axes.annotate(text, place, xytext=shift, textcoords="offset points", ha="right", va="bottom", fontsize=8)


def main() -> None:
    """``KIND INPUT.json OUTPUT.png``: what the kiln command starts."""
    kind, source, image = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        report = json.load(file)
    if kind == "sweep":
        draw_sweep(report, image)
    else:
        draw_tuning(report, image)


if __name__ == "__main__":
    main()
