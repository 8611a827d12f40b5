#!/usr/bin/env python3
"""Draws the ops of a GPU result beside the machine's limits.

    benchmarks/roofline.py benchmarks/results/<result>.json docs/roofline.png

Left: each op's arithmetic intensity and rate, below the roof that its memory and its arithmetic set. Right: the share of the best measured copy or read of the same
bytes that each op reaches. Below, where the result has them: matrix products beside what the roof of their dtype allows, and beside cuBLAS and Triton.
"""

import argparse
import pathlib

import matplotlib
import result_file

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Peak of the vector units in f32, TFLOP/s, by the name nvidia-smi gives (NVIDIA's data sheet).
PEAK_TFLOPS = {"NVIDIA H200": 67.0}
# Peak of the tensor cores without sparsity, likewise; IEEE f32 is the vector units'.
PEAK_MATMUL_TFLOPS = {
    "NVIDIA H200": {"bf16": 989.0, "f16": 989.0, "tf32": 495.0, "f32": 67.0, "fp8e4m3": 1979.0, "i8": 1979.0}
}


def draw_products(axes, rows, peaks, bandwidth):
    """The share of min(peak of the dtype, bandwidth in TB/s x operations per byte) that each product reaches."""

    def limit(row):
        return min(peaks[row["dtype"]], bandwidth * row["flops"] / row["bytes"])

    def best(row, start):
        return max([row[name]["tflops"] for name in row if name.startswith(start)], default=float("nan")) / limit(row)

    names = [f"{row['case']} {row['dtype']}" for row in rows]
    axes.barh(names, [row["kiln"]["tflops"] / limit(row) for row in rows], label="Kiln")
    axes.plot([best(row, "torch") for row in rows], names, "k|", ms=9, label="cuBLAS, the better of both layouts")
    axes.plot([best(row, "triton") for row in rows], names, "rx", ms=5, label="Triton, likewise")
    axes.set(title="matrix products: share of what the tensor cores or the memory allow")
    axes.tick_params(axis="y", labelsize=6)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.legend(fontsize=7, loc="lower right")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("image", type=pathlib.Path)
    arguments = parser.parse_args()
    result = result_file.read(arguments.result)
    rows = [row for part in ("elementwise", "memory_ops") for row in result.get(part, []) if "kiln" in row]
    products = [row for row in result.get("matmul", []) if "kiln" in row]
    if not rows:
        parser.error(f"{arguments.result} holds no measured ops")
    gpu = result["gpu"].split(",")[0]
    peak = PEAK_TFLOPS.get(gpu)
    if peak is None:
        parser.error(f"the peak rate of '{gpu}' is not known here: add it to PEAK_TFLOPS")
    limits = [
        row[p]["gb_s"]
        for row in rows
        for p in row
        if isinstance(row[p], dict) and ("copy" in p or p.startswith("read"))
    ]
    bandwidth = max(limits) / 1e3 if limits else max(row["kiln"]["gb_s"] for row in rows) / 1e3  # TB/s

    heights = [0.22 * len(rows) + 2] + ([0.16 * len(products) + 1] if products else [])
    figure = plt.figure(figsize=(15, sum(heights)), constrained_layout=True)
    grid = figure.add_gridspec(len(heights), 2, width_ratios=[1, 1.3], height_ratios=heights)
    roof, shares = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    if products:
        draw_products(figure.add_subplot(grid[1, :]), products, PEAK_MATMUL_TFLOPS[gpu], bandwidth)
    intensities = [0.01, peak / bandwidth, 100]
    roof.plot(intensities, [min(peak, bandwidth * i) for i in intensities], "k-", lw=1)
    colours = {op: plt.cm.tab20(i % 20) for i, op in enumerate(sorted({row["op"] for row in rows}))}
    for row in rows:
        intensity = max(row["flops"] / row["bytes"], 0.0125)  # ops that only move data, at the left edge
        roof.plot(
            intensity,
            intensity * row["kiln"]["gb_s"] / 1e3,
            "o" if row["dtype"] == "float32" else "s",
            color=colours[row["op"]],
            ms=5,
        )
    roof.set(
        xscale="log",
        yscale="log",
        xlabel="operations per byte",
        ylabel="TFLOP/s",
        title=f"{gpu}: {bandwidth:.2f} TB/s, {peak:.0f} TFLOP/s in f32",
    )
    roof.legend(
        [plt.Line2D([], [], marker="o", ls="", color=c) for c in colours.values()],
        colours,
        fontsize=6,
        ncols=2,
        loc="lower right",
    )

    def bound_of(row):
        return max(
            [row[p]["gb_s"] for p in row if isinstance(row[p], dict) and ("copy" in p or p.startswith("read"))],
            default=bandwidth * 1e3,
        )

    names = [f"{row['case']} {row['dtype']}" for row in rows]
    shares.barh(
        names,
        [row["kiln"]["gb_s"] / bound_of(row) for row in rows],
        color=[colours[row["op"]] for row in rows],
        label="Kiln",
    )
    shares.plot([row["torch"]["gb_s"] / bound_of(row) for row in rows], names, "k|", ms=9, label="torch")
    shares.plot(
        [row["triton"]["gb_s"] / bound_of(row) if "triton" in row else float("nan") for row in rows],
        names,
        "rx",
        ms=5,
        label="Triton",
    )
    shares.axvline(1, color="grey", lw=0.8)
    shares.set(title="share of a plain copy or read of the same bytes")
    shares.tick_params(axis="y", labelsize=6)
    shares.set_ylim(len(names) - 0.5, -0.5)
    shares.legend(fontsize=7, loc="lower left")
    figure.savefig(arguments.image, dpi=110)
    print(f"wrote {arguments.image}")


if __name__ == "__main__":
    main()
