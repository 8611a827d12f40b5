"""A gather of short rows from the host's memory to a GPU: the published steps, and Kiln's op."""

from __future__ import annotations

import argparse
import shlex
import statistics
from typing import TYPE_CHECKING, Any

import kiln
from kiln.experiments.gather_rows import FLUSH_BYTES, LIMITED, Rows, Way
from kiln.experiments.options import count, several, size
from kiln.experiments.report import Claim, Report, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIRE_GB_S = 63.0  # of PCIe 5 x16, raw
GIB = 1 << 30
RECIPE = """\
Nsight Compute sees one launch, after two that warm up:

    ncu --set full --kernel-name regex:{kernel} --launch-skip 2 --launch-count 1 kiln experiment gather {arguments}

Read "Memory Workload Analysis": L2 <-> System Memory is what came over the bus, and how many sectors a request has says
whether neighbouring threads asked for neighbouring bytes. "Warp State": long scoreboard is waiting for those rows.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bs", type=size, default=128, metavar="N", help="requests (default 128)")
    parser.add_argument("--topk", type=size, default=2048, metavar="N", help="rows of each (default 2048)")
    parser.add_argument(
        "--slots", type=size, default=None, metavar="N", help="rows of the pool on the host (default a seventh more)"
    )
    parser.add_argument("--row-bytes", type=size, default=656, metavar="N", help="of a row (default 656)")
    parser.add_argument(
        "--sms",
        type=several(size),
        default=[2, 4, 8, 16, 32, 132],
        metavar="N,...",
        help="multiprocessors that a warp per row is limited to (default 2,4,8,16,32,132)",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="VARIANT",
        help=f"another variant that --sms limits: {', '.join(map(repr, LIMITED))}, or all; may be given again",
    )
    parser.add_argument("--iters", type=size, default=10, metavar="N", help="samples (default 10)")
    parser.add_argument("--warmup", type=count, default=2, metavar="N", help="calls before those (default 2)")
    parser.add_argument("--ncu", metavar="VARIANT", help="run one variant alone, for Nsight Compute; says how")


def check(options: argparse.Namespace) -> None:
    """Before anything is allocated."""
    pairs = options.bs * options.topk
    if options.slots is None:
        options.slots = pairs + pairs // 7
    if options.slots < pairs:
        raise kiln.UsageValueError(
            f"--slots is {options.slots}, and no row is taken twice: expected {pairs} (--bs x --topk) or more"
        )
    if options.slots >= 1 << 31:
        raise kiln.UsageValueError(
            f"{options.slots} rows in the pool are more than 32 bits count; give fewer --slots, --bs or --topk"
        )
    if options.ncu is not None and options.plot is not None:
        raise kiln.UsageValueError("--ncu measures nothing, so there is nothing to draw: leave --plot out")
    if options.limit and options.device == "cpu":
        raise kiln.UsageValueError("--limit is of multiprocessors, and the CPU has none: leave it out")
    for name in options.limit:
        if name not in (*LIMITED, "all"):
            raise kiln.UsageValueError(f"--limit is '{name}'; expected one of: {'; '.join(LIMITED)}; all")
    if "all" in options.limit:
        options.limit = list(LIMITED)
    if options.row_bytes % 16 != 0:
        raise kiln.UsageValueError(
            f"--row-bytes is {options.row_bytes}; expected a multiple of 16, which the published kernels move at a time"
        )
    pool, rows = options.slots * options.row_bytes, pairs * options.row_bytes
    places = {"cpu": pool + 3 * rows} if options.device != "cpu" else {"cpu": pool + 4 * rows}
    if options.device != "cpu":
        places[options.device] = 2 * rows + FLUSH_BYTES
    for place, needed in places.items():
        free = kiln.memory_usage(place).available_bytes
        if needed > free:
            raise kiln.UsageValueError(
                f"{needed / GIB:.1f} GiB of {'the host' if place == 'cpu' else place}'s memory are needed and "
                f"{free / GIB:.1f} are free; give fewer --slots, --bs or --topk"
            )


def run(options: argparse.Namespace) -> Report:
    check(options)
    name = next(row["name"] for row in kiln.devices() if row["device"] == options.device)
    settings = {key: getattr(options, key) for key in ("bs", "topk", "slots", "row_bytes")}
    settings["pool_MiB"] = options.slots * options.row_bytes >> 20
    report = Report("gather", name, settings)
    rows = Rows(options)
    variants = rows.variants()
    if options.ncu is not None:
        run_alone(report, options, rows, variants)
        return report
    measured = [measure(options, rows, variant, call) for variant, call in variants.items()]
    report.tables["gather"] = Table(
        f"{rows.pairs} rows of {options.row_bytes} bytes in random order, {rows.lines_per_row():.2f} lines of 128 bytes each",
        ["variant", "sms", "ms", "MB", "gb_s", "gib_s", "of_wire", "refused"],
        measured,
    )
    report.claims += claims_of(measured)
    if options.device == "cpu":
        report.notes.append(
            "On the CPU both sides are the same memory: what is compared are ways to copy short rows. The published "
            "kernels are CUDA's."
        )
    return report


def run_alone(report: Report, options: argparse.Namespace, rows: Rows, variants: dict[str, Way]) -> None:
    """A few launches of one variant, and nothing else."""
    if options.ncu not in variants:
        raise kiln.UsageValueError(f"--ncu is '{options.ncu}'; expected one of: {', '.join(variants)}")
    call = variants[options.ncu]
    if isinstance(call, str):
        raise kiln.UsageValueError(f"--ncu is '{options.ncu}', which cannot run here: {call}")
    for _ in range(3):
        call()
    kiln.synchronize()
    report.notes.append(
        RECIPE.format(kernel=rows.kernel_of.get(options.ncu, ".*"), arguments=shlex.join(arguments_of(options)))
    )


def arguments_of(options: argparse.Namespace) -> list[str]:
    """The command line's, with which the same call is made again."""
    words = ["--device", options.device]
    for name in ("bs", "topk", "slots", "row_bytes"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    words += ["--sms", ",".join(map(str, options.sms))] if options.device != "cpu" else []
    for name in options.limit:
        words += ["--limit", name]
    return [*words, "--ncu", options.ncu]


def measure(options: argparse.Namespace, rows: Rows, variant: str, call: Way) -> dict[str, Any]:
    """A row of the table; every byte was compared first."""
    row: dict[str, Any] = {"variant": variant, "sms": rows.sms_of.get(variant)}
    if isinstance(call, str):
        return {**row, "refused": call}
    if not rows.arrive(call):
        raise kiln.InternalError(f"gather, {variant}: rows differ from the source")
    times = [rows.timed_us(call) for _ in range(options.warmup + options.iters)][options.warmup :]
    us = statistics.median(times)
    gb_s = rows.bytes / us / 1e3
    row |= {"ms": us / 1e3, "MB": rows.bytes / 1e6, "gb_s": gb_s, "gib_s": gb_s * 1e9 / GIB}
    if options.device != "cpu":
        row["of_wire"] = gb_s / WIRE_GB_S
    return row


def claims_of(measured: list[dict[str, Any]]) -> list[Claim]:
    rates = {row["variant"]: row["gib_s"] for row in measured if "gib_s" in row}
    written = {
        "bytewise": "1.97 GiB/s",
        "warp per row, 16 SMs": "44.5 GiB/s",
        "copy of as many bytes": "55.3 GB/s of 63 raw (51.5 GiB/s)",
        "Kiln": "",
    }
    return [
        Claim(variant, figure or "no figure: beside a warp per row", f"{rates[variant]:.2f} GiB/s")
        for variant, figure in written.items()
        if variant in rates
    ]


def draw(report: Report, figure: Figure) -> None:
    rows = [row for row in report.tables["gather"].rows if "gb_s" in row]
    axes = figure.subplots()
    colors = ["C1" if row["variant"].startswith("Kiln") else "C0" for row in rows]
    bars = axes.barh([row["variant"] for row in rows], [row["gb_s"] for row in rows], color=colors)
    axes.bar_label(bars, [f"{row['gb_s']:.1f}" for row in rows], padding=3, fontsize=8)
    if any("of_wire" in row for row in rows):
        axes.axvline(WIRE_GB_S, color="gray", lw=1, ls="--", label="the wire, raw")
        axes.legend(fontsize=8)
    axes.set(xlabel="GB/s of rows")
    axes.tick_params(axis="y", labelsize=8)
    axes.invert_yaxis()
