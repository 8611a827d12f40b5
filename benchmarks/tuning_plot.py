#!/usr/bin/env python3
"""Draws what a GPU result says about tuning: the gain over the default of every tuned call, and how far each choice is from the best config that met it.

benchmarks/tuning_plot.py benchmarks/results/<result>.json docs/tuning.png
"""

import argparse
import pathlib

import matplotlib
import result_file

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw_intervals(axes, rows, key, interval, colours):
    places = range(len(rows))
    for place, row, colour in zip(places, rows, colours):
        axes.plot(row[interval], [place, place], color=colour, lw=3, alpha=0.4)
        axes.plot([row[key]], [place], "o", color=colour)
        axes.annotate(
            f"{row[key]:.3f}", (row[key], place), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=7
        )
    axes.axvline(1, color="grey", lw=0.8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("image", type=pathlib.Path)
    arguments = parser.parse_args()
    result = result_file.read(arguments.result)
    rows = [
        (section, row) for section in ("matmul", "ops") for row in result["tuning"].get(section, []) if "gain" in row
    ]
    if not rows:
        parser.error(f"{arguments.result} holds no part tuning with a gain")
    names = [("matmul bf16 " if section == "matmul" else "") + row["case"] for section, row in rows]
    colours = ["C0" if section == "matmul" else "C1" for section, _ in rows]
    figure, (gains, distances) = plt.subplots(
        1, 2, figsize=(13, 0.38 * len(rows) + 1.5), sharey=True, constrained_layout=True
    )
    figure.suptitle(
        f"kiln tune on {result['gpu'].split(',')[0]}: configs in turns at 8 places in memory, means with 95% intervals"
    )
    draw_intervals(gains, [row for _, row in rows], "gain", "gain_interval", colours)
    gains.set(title="times faster than the default")
    gains.set_yticks(range(len(rows)), names, fontsize=8)
    gains.invert_yaxis()
    draw_intervals(distances, [row for _, row in rows], "time_over_best", "time_over_best_interval", colours)
    distances.axvline(1.02, color="C3", lw=0.8, ls="--", label="2%")
    distances.set(title="time over that of the best config that met it")
    distances.legend(fontsize=8)
    figure.savefig(arguments.image, dpi=100)
    print(f"wrote {arguments.image}")


if __name__ == "__main__":
    main()
