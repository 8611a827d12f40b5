"""Draws what `kiln tune` found: plot.py KIND INPUT.json OUTPUT.png

Started by the kiln command, which embeds it; KIND is tuning.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw_tuning(reports):
    """Of each tuned call the time of every config, best first, with its 95% interval, and the rate beside the chosen one."""
    rows = len(reports)
    figure, axes = plt.subplots(rows, 2, figsize=(12, 3.4 * rows), squeeze=False, gridspec_kw={"width_ratios": [3, 1]})
    for (times, rates), report in zip(axes, reports):
        measured = [tried for tried in report["tried"] if "median_us" in tried]
        medians = [tried["median_us"] for tried in measured]
        intervals = [tried.get("interval_us", [median, median]) for median, tried in zip(medians, measured)]
        low = [max(median - interval[0], 0) for median, interval in zip(medians, intervals)]
        high = [max(interval[1] - median, 0) for median, interval in zip(medians, intervals)]
        times.errorbar(range(len(measured)), medians, [low, high], fmt=".", ms=4, lw=1)
        for name, color in (("default_config", "C1"), ("config", "C2")):
            places = [i for i, tried in enumerate(measured) if tried["config"] == report[name]]
            times.plot(places, [medians[i] for i in places], "o", ms=8, mfc="none", color=color, label={"config": "chosen"}.get(name, "default"))
        times.set(yscale="log", ylabel="us", xlabel="config, best first")
        times.set_title(f"{report['op']} {report['dtypes']} {report['shapes']}: {report['device']}", fontsize=9)
        times.legend(fontsize=8)
        work, unit = (report["flops"], "GFLOP/s") if report["flops"] > 2 * report["bytes"] else (report["bytes"], "GB/s")
        bars = {label: next((tried["median_us"] for tried in measured if tried["config"] == report[key]), None)
                for label, key in (("default", "default_config"), ("chosen", "config"))}
        bars = {label: work / us * 1e-3 for label, us in bars.items() if us}
        rates.bar(list(bars), list(bars.values()), color=["C1", "C2"])
        rates.set(ylabel=unit)
    figure.tight_layout()
    return figure


def main():
    kind, source, image = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        reports = json.load(file)
    {"tuning": draw_tuning}[kind](reports).savefig(image, dpi=120, format="png")


main()
