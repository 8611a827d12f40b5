"""What rows of random calls on a GPU say together: Kiln's default beside its peer, beside what a search finds, and beside what the GPU can do; and which calls are the worst."""

import statistics

from call_report import SLOWER, figures, is_measured, is_wrong, problem_lines, worst

ROOFLINE_US = 20  # shorter calls are told by what a launch costs
NUM_WORST = 20
COLUMNS = f"{'calls':>5} {'mean':>7} {'slower':>7} {'p5':>7} {'worst':>7} | {'roofline':>8} {'peer':>6} {'of':>5}"


def roofline(rows):
    """The median share of the roofline, of Kiln and of the peer, in calls that are long enough to say; None where there are none."""
    long = [row for row in rows if row["kiln"]["median_us"] >= ROOFLINE_US]
    if not long:
        return None
    shares = {side: statistics.median(row[f"{side}_of_roof"] for row in long) for side in ("kiln", "peer")}
    return {"calls": len(long), **shares}


def gains(rows):
    """How many times faster the tuned calls are than their defaults; None where none was tuned."""
    found = sorted(row["tuning_gain"] for row in rows if "tuning_gain" in row)
    if not found:
        return None
    mean, slower = statistics.geometric_mean(found), sum(gain > 1 / SLOWER for gain in found)
    return {"calls": len(found), "geometric_mean": mean, "share_slower": slower / len(found), "worst": found[-1]}


def figures_of(rows):
    return {"all": figures(rows), "roofline": roofline(rows), "tuning_gain": gains(rows)}


def groups_of(rows):
    """{name: rows} of the parts that the table has: by kind, by what is computed in, by op of what has no products."""
    others = [row for row in rows if row["family"] != "products" and row["op"] != row["kind"]]
    parts = [("{kind}", rows), ("in {dtype}", rows), ("op {op}", others)]
    groups = {}
    for name, of_part in parts:
        for row in sorted(of_part, key=lambda row: name.format(**row)):
            groups.setdefault(name.format(**row), []).append(row)
    return groups


def figures_of_families(rows):
    """{family: {"all", "roofline", "tuning_gain", "wrong", "failed", "groups": {name: {...}}}}."""
    families = {}
    for family in dict.fromkeys(row["family"] for row in rows):
        of_family = [row for row in rows if row["family"] == family]
        measured = list(filter(is_measured, of_family))
        counts = {"wrong": sum(map(is_wrong, measured)), "failed": len(of_family) - len(measured)}
        groups = {name: figures_of(group) for name, group in groups_of(measured).items()}
        families[family] = figures_of(measured) | counts | {"groups": groups}
    return families


def table_line(name, found):
    line = f"{name:22}"
    if part := found["all"]:
        line += " {calls:5} {geometric_mean:7.3f} {share_slower:7.1%} {p5:7.3f} {worst:7.3f} |".format(**part)
    if part := found["roofline"]:
        line += " {kiln:8.3f} {peer:6.3f} {calls:5}".format(**part)
    return line


def summary_lines(families, peer):
    yield f"Kiln's speed over {peer}'s: geometric mean, share of calls slower by 5%, 5th percentile, worst |"
    yield f"median share of the roofline in calls of {ROOFLINE_US} us or more, Kiln's and {peer}'s"
    yield f"{'':22} {COLUMNS}"
    for family, found in families.items():
        yield table_line(family, found)
        for name, of_group in found["groups"].items():
            yield table_line(f"  {name}", of_group)
        yield f"  {found['wrong']} wrong, {found['failed']} failed"
        if gain := found["tuning_gain"]:
            text = "  {calls} tuned: {geometric_mean:.3f} times as fast as the default, {share_slower:.0%} by over 5%, at most {worst:.3f}"
            yield text.format(**gain)


def name_of(row):
    return f"{row['family']}/{row['index']} {row['call']}"


def worst_lines(title, rows, peer):
    yield ""
    yield f"the worst of {title}: speed, microseconds of Kiln, of {peer} and of the roofline, call, variant and config"
    for row in worst(rows):
        kiln_us, peer_us = row["kiln"]["median_us"], row["peer"]["median_us"]
        times = f"{row['speed']:6.3f} {kiln_us:9.1f} {peer_us:9.1f} {row['roof_us']:9.1f}"
        yield f"{times}  {name_of(row)} [{row['variant']}: {row['config']}]"


def gain_lines(title, rows):
    tuned = sorted((row for row in rows if row.get("tuning_gain", 1) > 1), key=lambda row: -row["tuning_gain"])
    if not tuned:
        return
    yield ""
    yield f"what tuning gains most of {title}: gain, microseconds of the default and tuned, call, configs"
    for row in tuned[:NUM_WORST]:
        times = f"{row['tuning_gain']:6.3f} {row['kiln']['median_us']:9.1f} {row['tuned']['median_us']:9.1f}"
        yield f"{times}  {name_of(row)} [{row['variant']}: {row['config']} -> {row['tuned_config']}]"


def lines(rows, peer):
    families = figures_of_families(rows)
    yield from summary_lines(families, peer)
    for family in families:
        measured = [row for row in rows if row["family"] == family and is_measured(row)]
        yield from worst_lines(family, measured, peer)
        yield from gain_lines(family, measured)
    yield from problem_lines(rows, peer)
    for row in rows:
        if "tuning_failed" in row:
            yield f"not tuned: {name_of(row)}: {row['tuning_failed']}"


def text_of(rows, peer):
    """The summary, the worst calls, what tuning gains most, and what failed or is wrong."""
    return "\n".join(lines(rows, peer))
