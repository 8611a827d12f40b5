"""Draws random calls: Kiln's speed over its peer's by how long the peer takes, and its distribution in each family; where there are, what tuning gains and shares of the roofline."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from call_report import figures, is_measured


def draw_distribution(axes, values, label, **style):
    values = sorted(values)
    axes.plot([rank / len(values) for rank in range(len(values))], values, label=label, **style)


def draw_speeds(calls, shares, families, peer, long_us):
    for place, (family, rows) in enumerate(families.items()):
        times = [row["peer"]["median_us"] for row in rows]
        calls.plot(times, [row["speed"] for row in rows], ".", color=f"C{place}", ms=4, label=family)
        long = [row for row in rows if row["peer"]["median_us"] >= long_us]
        for style, title, chosen in (("-", "", rows), ("--", f" of {long_us} us or more", long)):
            if found := figures(chosen):
                label = f"{family}{title}: mean {found['geometric_mean']:.2f}, slower {found['share_slower']:.0%}"
                draw_distribution(shares, [row["speed"] for row in chosen], label, ls=style, color=f"C{place}")
    for axes in (calls, shares):
        axes.axhline(1, color="grey", lw=0.8)
        axes.set_yscale("log")
    calls.axvline(long_us, color="grey", lw=0.8, ls=":")
    calls.set(xscale="log", xlabel=f"microseconds of {peer}", ylabel=f"Kiln's speed over {peer}'s")
    shares.set(xlabel="share of calls that are slower")


def draw_gains(axes, families):
    for place, (family, rows) in enumerate(families.items()):
        if gains := [row["tuning_gain"] for row in rows if "tuning_gain" in row]:
            draw_distribution(axes, gains, f"{family}: {len(gains)} calls", color=f"C{place}")
    axes.set(xlabel="share of calls that gain less", ylabel="the default's time over the tuned one's")
    axes.axhline(1, color="grey", lw=0.8)


def draw_roofline(axes, families, peer, long_us):
    for place, (family, rows) in enumerate(families.items()):
        if long := [row for row in rows if row["kiln"]["median_us"] >= long_us]:
            for side, style, name in (("kiln", "-", "Kiln"), ("peer", ":", peer)):
                values = [row[f"{side}_of_roof"] for row in long]
                draw_distribution(axes, values, f"{family}, {name}", ls=style, color=f"C{place}")
    axes.set(xlabel="share of calls with less", ylabel=f"share of the roofline, calls of {long_us} us or more")
    axes.set_ylim(0, None)


def draw(rows, title, peer, path, *, long_us, beside=False):
    """`beside`: what tuning gains and shares of the roofline too."""
    measured = list(filter(is_measured, rows))
    families = {}
    for row in measured:
        families.setdefault(row["family"], []).append(row)
    height = 2 if beside else 1
    figure, grid = plt.subplots(height, 2, figsize=(13, 5 * height), constrained_layout=True, squeeze=False)
    grid[0, 1].sharey(grid[0, 0])
    figure.suptitle(title)
    draw_speeds(*grid[0], families, peer, long_us)
    if beside:
        draw_gains(grid[1, 0], families)
        draw_roofline(grid[1, 1], families, peer, long_us)
    for axes in grid.flat:
        if axes.lines:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)
    plt.close(figure)
