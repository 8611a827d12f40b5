"""What an experiment found out: tables, and the write-up's figures beside its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows under a title. A column that no row has a value in is left out when it is printed."""

    title: str
    columns: Sequence[str]  #: keys of the rows, which are the headings too
    rows: Sequence[Row]


@dataclass(frozen=True)
class Claim:
    """A figure of the write-up, and what came out here."""

    what: str
    write_up: str  #: as it was said there, with its unit and its machine
    here: str


@dataclass
class Report:
    """All that an experiment prints, and draws from."""

    experiment: str
    device: str  #: its name, such as "NVIDIA H200"
    settings: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)  #: what only the picture and ``--json`` have

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        settings = " ".join(f"{name}={value}" for name, value in self.settings.items())
        parts = [f"{self.experiment} on {self.device}: {settings}"]
        parts += [f"{table.title}\n{indented(lines_of(table))}" for table in self.tables.values() if table.rows]
        if self.claims:
            rows = [dataclasses.asdict(claim) for claim in self.claims]
            shown = Table("", ["what", "write_up", "here"], rows)
            parts.append(f"beside the write-up\n{indented(lines_of(shown))}")
        return "\n\n".join([*parts, *self.notes])


def text_of(value: object) -> str:
    """A cell: numbers with three or four digits that count."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def indented(lines: Iterator[str]) -> str:
    return "\n".join(f"  {line}".rstrip() for line in lines)


def lines_of(table: Table) -> Iterator[str]:
    """A table's lines; numbers are flush right under their heading."""
    columns = [name for name in table.columns if any(row.get(name) is not None for row in table.rows)]
    cells = [[text_of(row.get(name)) for name in columns] for row in table.rows]
    headings = [name.replace("_", " ") for name in columns]
    widths = [max(len(text) for text in column) for column in zip(headings, *cells)]
    right = [all(not isinstance(row.get(name), str) for row in table.rows) for name in columns]
    for line in [headings, *cells]:
        yield "  ".join(
            text.rjust(width) if is_right else text.ljust(width) for text, width, is_right in zip(line, widths, right)
        )
