"""Rows of benchmarks/gpu_language.py, from times by provider: what a user's text reaches beside its peers, and what it is held to."""

import dataclasses

from peer_speed import speed_over
from sample_spread import spread_us

OWN = "kiln"
COPY = "copy"  # of as many bytes: a bound


@dataclasses.dataclass
class Demand:
    """Least speeds over groups of peers, by the start of their names; the least demanding one holds."""

    least: dict

    @property
    def name(self):
        return " or ".join(f"{speed:g} of {peers}" for peers, speed in self.least.items())

    def outcome(self, times):
        """The share of the demanded speed that is reached, by medians; None where no peer was measured."""
        shares = [
            speed_over(peers, times, OWN)["speed"] / speed
            for start, speed in self.least.items()
            if (peers := peers_of(times, start))
        ]
        return {"share": max(shares), "met": max(shares) >= 1} if shares else None


def peers_of(times, start):
    return [name for name in times if name.startswith(start) and name != OWN]


def row_of(case, what, times, extra, flops, moved):
    """A case's row: `what` describes it, `times` has the samples of each provider, `extra` what else is known of one."""
    row = {"case": case, **what, "flops": flops, "bytes": moved, "samples": len(times[OWN])}
    for name, samples in times.items():
        row[name] = {**spread_us(samples), **extra.get(name, {})}
        row[name]["gb_s"] = moved / row[name]["median_us"] / 1e3
        row[name]["tflops"] = flops / row[name]["median_us"] / 1e6
    row["over"] = {}
    for name in times:
        group = name if name.startswith(OWN) else name.split()[0]
        if name != OWN and group not in row["over"]:
            row["over"][group] = speed_over(peers_of(times, group), times, OWN)
    return row


def hold(row, demands, times):
    """Writes into a row what becomes of its demands."""
    outcomes = {demand.name: demand.outcome(times) for demand in demands}
    row["demands"] = {name: outcome for name, outcome in outcomes.items() if outcome}
    return row


def line_of(row, unit):
    """A row for whoever watches: `unit` is gb_s or tflops."""
    rates = "  ".join(f"{name} {of[unit]:.0f}" for name, of in row.items() if isinstance(of, dict) and unit in of)
    demands = "  ".join(
        f"{of['share']:.3f} of {name}{'' if of['met'] else ' SHORT'}" for name, of in row["demands"].items()
    )
    return f"{row['case']:40} {row['dtype']:8} {rates}  {demands}  [{row.get('config', '')}]"


def worst_of(rows, count):
    """Names of the rows that are slowest beside the best of all their peers, with that speed; a copy is no peer."""
    slowest = []
    for row in rows:
        if speeds := [over["speed"] for name, over in row.get("over", {}).items() if name != COPY]:
            slowest.append((min(speeds), f"{row['case']} {row['dtype']}"))
    slowest.sort()
    return [{"case": name, "speed": speed} for speed, name in slowest[:count]]
