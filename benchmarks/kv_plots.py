#!/usr/bin/env python3
"""Draws what a GPU result says about KV caches that lie in host memory.

    benchmarks/kv_plots.py benchmarks/results/<result>.json docs

Writes kv-gather.png (the staircase, pools by number of SMs, row sizes, what a gather costs a matrix product beside it) and kv-transfer.png (ways to copy tensors, one
pipelined run, speedups) into the folder.
"""

import argparse
import pathlib

import matplotlib
import result_file

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ORDER_STYLES = {"random": "-", "request-local": "--", "sorted": ":"}
STAGES = {"load": 2, "compute": 1, "store": 0}


def measured(rows):
    return [row for row in rows if "gb_s" in row]


def draw_staircase(axes, rows):
    steps = [row for row in measured(rows) if not row.get("bound")]
    bounds = [row for row in measured(rows) if row.get("bound")]
    bars = axes.barh(
        [row["provider"] for row in steps],
        [row["gb_s"] for row in steps],
        color=["C1" if "Kiln" in row["provider"] else "C0" for row in steps],
    )
    axes.bar_label(bars, [f"{row['gb_s']:.1f}" for row in steps], padding=3, fontsize=8)
    reads = [row for row in bounds if "copy engine" not in row["provider"]]
    limits = [row for row in bounds if "copy engine" in row["provider"]] + sorted(reads, key=lambda row: row["gb_s"])[
        -1:
    ]
    for row, style in zip(limits, ("k-", "k--")):
        axes.plot(
            [row["gb_s"]] * 2, [-0.5, len(steps) - 0.5], style, lw=1, label=f"{row['provider']}: {row['gb_s']:.1f}"
        )
    axes.set(title="pool of 188 MiB, rows of 656 bytes in random order", xlabel="GB/s")
    axes.invert_yaxis()
    axes.legend(fontsize=8, loc="upper center")


def draw_pool(axes, rows, pool_mib):
    kinds = {"Kiln": "C1", "warp per row": "C0", "rows in flight": "C2"}
    rows = [row for row in measured(rows) if row["pool_mib"] == pool_mib]
    for kind, colour in kinds.items():
        for order, style in ORDER_STYLES.items():
            line = sorted(
                (row["sms"], row["gb_s"])
                for row in rows
                if row["provider"].startswith(kind) and row["order"] == order and row.get("sms")
            )
            if line:
                axes.plot(*zip(*line), style, color=colour, marker=".", label=f"{kind}, {order}")
    for order, style in ORDER_STYLES.items():
        for row in rows:
            if row["provider"] == "Kiln, default" and row["order"] == order:
                axes.axhline(row["gb_s"], ls=style, color="C3", lw=0.8, label=f"Kiln's default, {order}")
    name = f"{pool_mib} MiB" if pool_mib < 1024 else f"{pool_mib // 1024} GiB"
    axes.set(title=f"pool of {name}", xscale="log", xlabel="SMs", ylim=(0, 58))
    axes.set_xticks([1, 2, 4, 8, 16, 32, 132], [1, 2, 4, 8, 16, 32, 132])
    axes.minorticks_off()


def draw_row_sizes(axes, rows):
    rows = measured(rows)
    axes.plot([row["row_bytes"] for row in rows], [row["gb_s"] for row in rows], ".-", lw=0.8, ms=3)
    cliffs = [row for row in rows if row["of_better_neighbour"] < 1 / 1.5]
    axes.plot(
        [row["row_bytes"] for row in cliffs],
        [row["gb_s"] for row in cliffs],
        "rx",
        label="1.5x slower for its bytes than a neighbour",
    )
    better = [row for row in rows if "tuned" in row]
    axes.plot(
        [row["row_bytes"] for row in better],
        [row["tuned"]["gb_s"] for row in better],
        "g_",
        label="the best of 32 configs, where a size is below 0.9 of a neighbour",
    )
    axes.legend(fontsize=7)
    axes.set(
        title="row sizes, 188 MiB, random, default config", xscale="log", xlabel="bytes", ylabel="GB/s", ylim=(0, None)
    )
    axes.set_xticks([16 << i for i in range(9)], [16 << i for i in range(9)])
    axes.minorticks_off()


def draw_beside(axes, rows):
    rows = [row for row in rows if "slowdown" in row]
    names = [f"{row['product']}\nbeside {row['gather']}" for row in rows]
    bars = axes.barh(
        names,
        [row["slowdown"] for row in rows],
        color=[f"C{sorted({r['product'] for r in rows}).index(row['product'])}" for row in rows],
    )
    axes.bar_label(
        bars,
        [f"x{row['slowdown']:.2f}, gather {row['gather_beside_gb_s']:.0f} GB/s" for row in rows],
        padding=3,
        fontsize=6,
    )
    axes.set(
        title="a bf16 product of 4096^3 beside a gather: times slower",
        xlim=(1, 1.35 * max(row["slowdown"] for row in rows)),
    )
    axes.tick_params(axis="y", labelsize=6)
    axes.invert_yaxis()


def draw_gather(result, image, gpu):
    pool_rows = result.get("pools", [])
    sizes = sorted({row["pool_mib"] for row in measured(pool_rows)})
    figure = plt.figure(figsize=(15, 14), constrained_layout=True)
    figure.suptitle(f"sparse KV gather, host to device, {gpu}")
    top, middle, bottom = figure.subfigures(3, 1, height_ratios=[1, 1.3, 1.2])
    draw_staircase(top.subplots(), result.get("staircase", []))
    for axes, size in zip(middle.subplots(1, max(1, len(sizes)), sharey=True, squeeze=False)[0], sizes):
        draw_pool(axes, pool_rows, size)
    middle.axes[0].set_ylabel("GB/s")
    middle.axes[-1].legend(fontsize=6, ncols=2)
    left, right = bottom.subplots(1, 2)
    if measured(result.get("row_sizes", [])):
        draw_row_sizes(left, result["row_sizes"])
    if any("slowdown" in row for row in result.get("beside_matmul", [])):
        draw_beside(right, result["beside_matmul"])
    figure.savefig(image, dpi=100)


def draw_copies(axes, rows, direction):
    rows = [row for row in measured(rows) if row["direction"] == direction]
    bars = axes.barh(
        [row["way"] for row in rows],
        [row["gb_s"] for row in rows],
        color=["C1" if "kiln" in row["way"] else "C0" for row in rows],
    )
    axes.bar_label(bars, [f"{row['gb_s']:.1f}" for row in rows], padding=3, fontsize=8)
    axes.set(title=f"60 tensors of 1x16800x1536 f16 {direction}", xlabel="GB/s", xlim=(0, 64))
    axes.invert_yaxis()


def draw_timeline(axes, name, spans):
    for stage, place in STAGES.items():
        axes.broken_barh(
            [(start, stop - start) for kind, start, stop in spans if kind == stage],
            (place - 0.4, 0.8),
            color=f"C{place}",
            edgecolor="white",
            lw=0.2,
        )
    axes.set(title=f"30 layers, {name}", xlabel="ms")
    axes.set_yticks(list(STAGES.values()), STAGES)


def draw_speedups(axes, rows):
    names = [name for name in rows[0]["times"] if name.startswith("pipelined")]
    for i, name in enumerate(names):
        axes.plot(
            [row["compute_share"] for row in rows],
            [row["times"][name]["times_sequential"] for row in rows],
            "o-",
            color=f"C{i}",
            label=name,
        )
    for bound, style, label in (
        ("of_bound", "k:", "the slowest stage alone"),
        ("of_shared_bound", "k--", "the slowest, with both directions at once on the bus"),
    ):
        axes.plot(
            [row["compute_share"] for row in rows],
            [1 / row["times"]["sequential"][bound] for row in rows],
            style,
            label=label,
        )
    axes.axhline(1, color="grey", lw=0.8)
    axes.set(
        title="30 layers: times faster than one after the other",
        xlabel="compute, of the time of a load",
        ylim=(0, None),
    )
    axes.legend(fontsize=8)


def draw_transfer(result, image, gpu):
    rows = [row for row in result.get("offload", []) if "times" in row]
    timelines = next((row["timeline"] for row in rows if row.get("timeline")), {})
    figure = plt.figure(figsize=(15, 10), constrained_layout=True)
    figure.suptitle(f"host and device, {gpu}")
    top, bottom = figure.subfigures(2, 1)
    for axes, direction in zip(top.subplots(1, 2), ("to the GPU", "to the host")):
        draw_copies(axes, result.get("copies", []), direction)
    left, right = bottom.subfigures(1, 2)
    for axes, (name, spans) in zip(
        left.subplots(max(1, len(timelines)), 1, sharex=True, squeeze=False)[:, 0], timelines.items()
    ):
        draw_timeline(axes, name, spans)
    if rows:
        draw_speedups(right.subplots(), rows)
    figure.savefig(image, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    result = result_file.read(arguments.result)
    drawn = []
    for part, draw in (("kv_gather", draw_gather), ("kv_transfer", draw_transfer)):
        if part in result:
            drawn.append(arguments.folder / f"{part.replace('_', '-')}.png")
            draw(result[part], drawn[-1], result["gpu"].split(",")[0])
    if not drawn:
        parser.error(f"{arguments.result} holds neither part kv_gather nor kv_transfer")
    print("wrote " + ", ".join(map(str, drawn)))


if __name__ == "__main__":
    main()
