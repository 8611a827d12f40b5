"""What rows of random calls say together: how fast Kiln is beside its peer, by family and kind of call, and which calls are the worst."""

import statistics

LONG_US = 100  # calls that take the peer at least this are told apart: in shorter ones counts what a call costs beside its work
SLOWER = 0.95  # a speed below this is slower by 5%
NUM_WORST = 20
TIMES_THE_PEERS_ERROR = 2
WAITED = 0.05  # of the time that a call was measured, threads of the libraries together waited for a CPU


def figures(rows):
    """Of rows with a "speed", which is Kiln's over the peer's; None of no rows."""
    speeds = sorted(row["speed"] for row in rows)
    if not speeds:
        return None
    return {
        "calls": len(speeds),
        "geometric_mean": statistics.geometric_mean(speeds),
        "share_slower": sum(speed < SLOWER for speed in speeds) / len(speeds),
        "p5": speeds[len(speeds) // 20],
        "worst": speeds[0],
    }


def is_measured(row):
    return "speed" in row


def is_long(row):
    return row["peer"]["median_us"] >= LONG_US


def is_wrong(row):
    """A result of Kiln's that is outside of the tolerance, and not because nobody adds up so many numbers that well; or of another shape or dtype."""
    if not is_measured(row):
        return False
    return row["error"] is None or row["error"] > max(1, TIMES_THE_PEERS_ERROR * (row["peer_error"] or 0))


def figures_of(rows):
    return {"all": figures(rows), "long": figures(filter(is_long, rows))}


def figures_of_families(rows):
    """{family: {"all", "long", "wrong", "failed", "kinds": {kind: {"all", "long"}}}}; where calls were tuned, "tuning_gain": {"calls", "geometric_mean", "worst"}."""
    families = {}
    for family in dict.fromkeys(row["family"] for row in rows):
        of_family = [row for row in rows if row["family"] == family]
        measured = list(filter(is_measured, of_family))
        found = families[family] = figures_of(measured)
        found |= {"wrong": sum(map(is_wrong, measured)), "failed": len(of_family) - len(measured)}
        if gains := [row["tuning_gain"] for row in measured if "tuning_gain" in row]:
            mean = statistics.geometric_mean(gains)
            found["tuning_gain"] = {"calls": len(gains), "geometric_mean": mean, "worst": min(gains)}
        kinds = sorted({row["kind"] for row in measured})
        found["kinds"] = {kind: figures_of([row for row in measured if row["kind"] == kind]) for kind in kinds}
    return families


def worst(rows):
    return sorted(filter(is_measured, rows), key=lambda row: row["speed"])[:NUM_WORST]


def table_line(name, found):
    cells = []
    for part in (found["all"], found["long"]):
        cell = (
            "{calls:5} {geometric_mean:6.3f} {share_slower:6.1%} {p5:6.3f} {worst:6.3f}".format(**part) if part else ""
        )
        cells.append(f"{cell:33}")
    return f"{name:17} {' | '.join(cells)}".rstrip()


def worst_lines(title, rows, peer):
    yield ""
    yield f"the worst of {title}: speed, microseconds of Kiln and of {peer}, call"
    for row in worst(rows):
        kiln_us, peer_us = row["kiln"]["median_us"], row["peer"]["median_us"]
        yield f"{row['speed']:6.3f} {kiln_us:10.1f} {peer_us:10.1f}  {row['family']}/{row['index']} {row['call']}"


def summary_lines(rows, peer):
    if waited := sum(row.get("waited_share", 0) > WAITED for row in rows):
        yield f"DISTURBED: in {waited} of {len(rows)} calls the libraries waited for CPUs over {WAITED:.0%} of the time"
    columns = f"{'calls':>5} {'mean':>6} {'slower':>6} {'p5':>6} {'worst':>6}"
    yield f"Kiln's speed over {peer}'s: geometric mean, share of calls slower by 5%, 5th percentile, worst"
    yield f"{'':17} {'all calls':33} | {peer} takes {LONG_US} us or more"
    yield f"{'':17} {columns} | {columns}"
    families = figures_of_families(rows)
    for family, found in families.items():
        yield table_line(family, found)
        for kind, of_kind in found["kinds"].items():
            yield table_line(f"  {kind}", of_kind)
        yield f"  {found['wrong']} wrong, {found['failed']} failed"
        if gain := found.get("tuning_gain"):
            yield "  {calls} tuned: {geometric_mean:.3f} times faster than the default, at worst {worst:.3f}".format(
                **gain
            )
    for family in families:
        measured = [row for row in rows if row["family"] == family and is_measured(row)]
        yield from worst_lines(family, measured, peer)
        yield from worst_lines(f"{family}, of {LONG_US} us or more", list(filter(is_long, measured)), peer)


def problem_lines(rows, peer):
    for row in rows:
        name = f"{row['family']}/{row['index']} {row['call']}"
        if not is_measured(row):
            yield f"failed: {name}: {row['failed']}"
        elif is_wrong(row):
            yield f"wrong: {name}: {row['error']} tolerances from the result in f64, {peer}'s {row['peer_error']}"


def text_of(rows, peer):
    """The summary, the worst calls, and what failed or is wrong."""
    return "\n".join([*summary_lines(rows, peer), *problem_lines(rows, peer)])
