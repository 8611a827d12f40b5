"""Draws Kiln's speed over its peer's in random calls: each call by how long the peer takes, and the distribution of each family."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from call_report import LONG_US, figures, is_long, is_measured


def draw(rows, about, path):
    """`about` is what the result says of machine and libraries."""
    measured = list(filter(is_measured, rows))
    figure, (calls, shares) = plt.subplots(1, 2, figsize=(13, 5), sharey=True, constrained_layout=True)
    peer, threads = about["peer"], about["threads"]
    figure.suptitle(
        f"random calls on {about['cpu']}, {about['cpu_features']}, threads: {threads}; seed {about['seed']}"
    )
    for place, family in enumerate(dict.fromkeys(row["family"] for row in measured)):
        of_family = [row for row in measured if row["family"] == family]
        times, speeds = [row["peer"]["median_us"] for row in of_family], sorted(row["speed"] for row in of_family)
        calls.plot(times, [row["speed"] for row in of_family], ".", color=f"C{place}", ms=4, label=family)
        for style, title, chosen in (
            ("-", "", of_family),
            ("--", f" of {LONG_US} us or more", list(filter(is_long, of_family))),
        ):
            if found := figures(chosen):
                speeds = sorted(row["speed"] for row in chosen)
                label = f"{family}{title}: mean {found['geometric_mean']:.2f}, slower {found['share_slower']:.0%}"
                shares.plot(
                    [rank / len(speeds) for rank in range(len(speeds))], speeds, style, color=f"C{place}", label=label
                )
    for axes in (calls, shares):
        axes.axhline(1, color="grey", lw=0.8)
        axes.set_yscale("log")
        axes.legend(fontsize=8)
    calls.axvline(LONG_US, color="grey", lw=0.8, ls=":")
    calls.set(xscale="log", xlabel=f"microseconds of {peer}", ylabel=f"Kiln's speed over {peer}'s")
    shares.set(xlabel="share of calls that are slower")
    figure.savefig(path, dpi=100)
    plt.close(figure)
