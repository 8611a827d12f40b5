"""Block sizes by element count: every fixed one, the default that looks at the count, and the tuned."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import kiln
from kiln.experiments.options import positive, size, sizes
from kiln.experiments.report import Claim, Report, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLOCK = "BLOCK_SIZE"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--op", default="add", help="an elementwise op (default add)")
    parser.add_argument("--dtype", default="f32", help="of its inputs (default f32)")
    parser.add_argument(
        "--sizes", type=sizes, default=None, metavar="N,...", help="element counts, or FROM:TO by twos (default 1K:16M)"
    )
    parser.add_argument("--iters", type=size, default=None, metavar="N", help="samples of each time (default: by need)")
    parser.add_argument("--budget", type=positive, default=0.3, metavar="S", help="seconds for each time (default 0.3)")
    parser.add_argument("--tune", type=positive, default=2.0, metavar="S", help="seconds for each tuning (default 2)")


def default_sizes() -> list[int]:
    """From a call that is all launch to one that no cache holds."""
    return [1 << power for power in range(10, 25, 2)]


def inputs_of(options: argparse.Namespace, elements: int) -> list[kiln.Tensor]:
    """Contiguous inputs of ones on the device, as many as the op's first example has."""
    example = kiln.op(options.op).spec.examples()[0]
    ones = np.ones(elements, kiln.DType(options.dtype).numpy)
    return [kiln.to_device(ones, options.device) for tensor in example.inputs if not tensor.absent]


def blocks_of(options: argparse.Namespace, tensors: list[kiln.Tensor]) -> tuple[dict[str, int], list[int]]:
    """The config that the op takes by itself, and the block sizes there are."""
    report = kiln.resolve(options.op, *tensors, tuning="off").report
    variants = {variant.name: variant for variant in kiln.op(options.op).spec.variants}
    blocks = variants[report.variant].tunables(options.device).get(BLOCK)
    if not blocks or BLOCK not in report.config:
        raise kiln.UsageValueError(
            f"--op is '{options.op}', whose variant '{report.variant}' has no {BLOCK}; expected an elementwise op"
        )
    return report.config, sorted(blocks)


def measured_us(options: argparse.Namespace, tensors: list[kiln.Tensor], config: dict[str, int]) -> float | None:
    """The median time of a call with hot caches; None where the op does not take the config."""
    try:
        found = kiln.benchmark(
            options.op, *tensors, config=config, samples=options.iters, budget_s=options.budget, flush_l2=False
        )
    except kiln.UsageError:
        return None
    return found.median_us


def tuned_config(options: argparse.Namespace, tensors: list[kiln.Tensor]) -> tuple[dict[str, int], dict[str, Any]]:
    """What a tuning chooses, which nothing else of this machine gets to know, and how it came to it."""
    table = kiln.autotune(options.op, *tensors, budget_s=options.tune, record=False, resume=False, progress=False)
    history = [{name: row[name] for name in ("config", "outcome", "median_us", "reason")} for row in table]
    return table.chosen["config"], {"verdict": table.verdict, "gain": table.gain, "tried": history}


def measure(options: argparse.Namespace, elements: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of the table, and one of the history."""
    tensors = inputs_of(options, elements)
    adaptive, blocks = blocks_of(options, tensors)
    tuned, tuning = tuned_config(options, tensors)
    fixed = {block: measured_us(options, tensors, {**adaptive, BLOCK: block}) for block in blocks}
    row = {
        "elements": elements,
        **{f"{block}_us": us for block, us in fixed.items()},
        "adaptive_us": measured_us(options, tensors, adaptive),
        "tuned_us": measured_us(options, tensors, tuned),
    }
    chosen = {"elements": elements, "adaptive": words(adaptive), "tuned": words(tuned), **tuning}
    return row, chosen


def words(config: dict[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())


def mean_loss(rows: list[dict[str, Any]], column: str, best: list[str]) -> float | None:
    """How many times slower than the best of each row, in the geometric mean over the rows that have it."""
    losses = [
        row[column] / min(row[name] for name in best if row[name] is not None)
        for row in rows
        if row.get(column) is not None
    ]
    return math.exp(sum(map(math.log, losses)) / len(losses)) if len(losses) == len(rows) else None


def run(options: argparse.Namespace) -> Report:
    counts = options.sizes or default_sizes()
    name = next(row["name"] for row in kiln.devices() if row["device"] == options.device)
    report = Report("adaptive", name, {"op": options.op, "dtype": options.dtype, "tune_s": options.tune})
    found = [measure(options, elements) for elements in counts]
    rows, history = [row for row, _ in found], [chosen for _, chosen in found]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    times = [column for column in columns if column != "elements"]
    report.tables["times"] = Table("microseconds of a call, caches hot, by block size", columns, rows)
    losses = {column: mean_loss(rows, column, times) for column in times}
    report.tables["losses"] = Table(
        "times slower than the best of its row, in the mean over rows",
        ["choice", "times_slower"],
        [
            {"choice": column.removesuffix("_us"), "times_slower": loss}
            for column, loss in losses.items()
            if loss is not None
        ],
    )
    report.tables["history"] = Table("what was chosen", ["elements", "adaptive", "tuned", "gain"], history)
    report.data["history"] = history
    fixed = [loss for column, loss in losses.items() if column[0].isdigit() and loss is not None]
    if fixed and losses["adaptive_us"] is not None:
        report.claims.append(
            Claim(
                "one block size for all counts, beside one chosen by the count: times slower",
                "no figure was given",
                f"{min(fixed):.2f} to {max(fixed):.2f}, beside {losses['adaptive_us']:.2f}",
            )
        )
    return report


def draw(report: Report, figure: Figure) -> None:
    axes = figure.subplots()
    rows = report.tables["times"].rows
    columns = [column for column in report.tables["times"].columns if column != "elements"]
    best = [min(row[column] for column in columns if row.get(column) is not None) for row in rows]
    for column in columns:
        points = [
            (row["elements"], row[column] / least) for row, least in zip(rows, best) if row.get(column) is not None
        ]
        is_fixed = column[0].isdigit()
        axes.plot(
            *zip(*points),
            "." + ("--" if is_fixed else "-"),
            lw=1 if is_fixed else 2,
            label=f"block of {column[:-3]}" if is_fixed else column[:-3],
        )
    axes.set_xscale("log", base=2)
    axes.set(xlabel="elements", ylabel="time over the best of this count")
    axes.legend(fontsize=8)
