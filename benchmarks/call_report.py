"""What rows of random calls say together: how fast Kiln is beside its peer, by family and kind, and which calls are worst."""

import statistics

LONG_US = (
    100  # calls of which the peer takes at least this are told apart: below, what a call costs beside its kernel counts
)
SLOWER = 0.95  # a speed below this is slower by 5%
WORST = 20


def figures(rows):
    """Of rows that have a `speed`, which is Kiln's over the peer's; None of no rows."""
    speeds = sorted(row["speed"] for row in rows)
    if not speeds:
        return None
    return {
        "calls": len(speeds),
        "mean": statistics.geometric_mean(speeds),
        "slower": sum(speed < SLOWER for speed in speeds) / len(speeds),
        "p5": speeds[int(0.05 * (len(speeds) - 1))],
        "worst": speeds[0],
    }


def is_long(row):
    return row["peer"]["median_us"] >= LONG_US


def is_wrong(row):
    return row["error"] is None or row["error"] > 1


def group(rows):
    return {"all": figures(rows), "long": figures([row for row in rows if is_long(row)])}


def summary(rows):
    """{family: {"all", "long", "wrong", "failed", "kinds": {kind: {"all", "long"}}}} with the figures of measured rows."""
    families = {}
    for family in dict.fromkeys(row["family"] for row in rows):
        of_family = [row for row in rows if row["family"] == family]
        measured = [row for row in of_family if "speed" in row]
        families[family] = {
            **group(measured),
            "wrong": sum(is_wrong(row) for row in measured),
            "failed": len(of_family) - len(measured),
            "kinds": {
                kind: group([row for row in measured if row["kind"] == kind])
                for kind in sorted({row["kind"] for row in measured})
            },
        }
    return families


def worst(rows, count=WORST):
    return sorted((row for row in rows if "speed" in row), key=lambda row: row["speed"])[:count]


def cells(found):
    if found is None:
        return f"{0:5} {'':6} {'':6} {'':6} {'':6}"
    return f"{found['calls']:5} {found['mean']:6.3f} {found['slower']:6.1%} {found['p5']:6.3f} {found['worst']:6.3f}"


def table(rows, peer):
    """The text of the summary, and of the worst calls of each family."""
    heading = f"{'calls':>5} {'mean':>6} {'slower':>6} {'p5':>6} {'worst':>6}"
    lines = [f"Kiln's speed over {peer}'s: geometric mean, share slower by 5%, 5th percentile, worst"]
    lines.append(f"{'':26} {'all':<33} | {peer} takes {LONG_US} us or more")
    lines.append(f"{'':26} {heading} | {heading}")
    for family, found in summary(rows).items():
        lines.append(f"{family:26} {cells(found['all'])} | {cells(found['long'])}")
        for kind, of_kind in found["kinds"].items():
            lines.append(f"  {kind:24} {cells(of_kind['all'])} | {cells(of_kind['long'])}")
        lines.append(f"  {found['wrong']} wrong, {found['failed']} failed")
    for family in dict.fromkeys(row["family"] for row in rows):
        for title, chosen in (("", lambda _: True), (f" of {LONG_US} us or more", is_long)):
            found = worst([row for row in rows if row["family"] == family and "speed" in row and chosen(row)])
            lines.append(f"\nworst of {family}{title}: speed, microseconds of Kiln and {peer}, call")
            for row in found:
                times = f"{row['kiln']['median_us']:10.1f} {row['peer']['median_us']:10.1f}"
                lines.append(f"{row['speed']:6.3f} {times}  {row['index']:5} {row['call']}")
    for row in rows:
        if "failed" in row:
            lines.append(f"failed: {row['family']}/{row['index']} {row['call']}: {row['failed']}")
        elif is_wrong(row):
            lines.append(f"wrong: {row['family']}/{row['index']} {row['call']}: error of {row['error']} tolerances")
    return "\n".join(lines)
