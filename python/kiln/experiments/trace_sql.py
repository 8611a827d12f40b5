"""SQL over a profile's trace, in Perfetto's words: the same statements serve its trace processor."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from typing import Any

#: What takes how long, by kind of slice.
BY_CATEGORY = """\
SELECT category, count(*) AS slices, sum(dur) / 1e6 AS ms
FROM slice WHERE dur >= 0 GROUP BY category ORDER BY ms DESC"""

#: The ops that were called within the windows of a region, whose name stands for {region}.
WITHIN_REGION = """\
SELECT op.name, count(*) AS calls, sum(op.dur) / 1e6 AS ms
FROM slice AS op JOIN slice AS region ON op.ts >= region.ts AND op.ts < region.ts + region.dur
WHERE region.category = 'region' AND region.name = '{region}' AND op.category = 'dispatch'
GROUP BY op.name ORDER BY ms DESC"""


def open_trace(path: str | pathlib.Path) -> sqlite3.Connection:
    """A database with the trace's slices as Perfetto has them: ts and dur in nanoseconds, name, category."""
    events = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["traceEvents"]
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.execute("CREATE TABLE slice (ts INTEGER, dur INTEGER, name TEXT, category TEXT, track_id INTEGER)")
    database.executemany(
        "INSERT INTO slice VALUES (?, ?, ?, ?, ?)",
        [
            (round(event["ts"] * 1e3), round(event["dur"] * 1e3), event["name"], event["cat"], event["tid"])
            for event in events
            if event["ph"] == "X"
        ],
    )
    return database


def query(database: sqlite3.Connection, statement: str) -> list[dict[str, Any]]:
    """Its rows."""
    return [dict(row) for row in database.execute(statement)]
