#!/usr/bin/env python3
"""The form of a benchmark's result: JSON with a line for each measured row.

    benchmarks/result_file.py FILE...     rewrites results in this form

Kept of a measurement are its median, 10th and 90th percentile, counts, ratios and rates, to four significant digits. A list of objects is a table where that is shorter:
{"columns": [...], "rows": [[...], ...]}, where a column is a name, or [name, columns] for an object's own. null, and what a row lacks at its end, was not measured; "=" stands for
the text above it. Rates that follow from the bytes and operations of a row are left out, and are there again when `read` has read it. docs/performance.md says which results are kept, and where.
"""

import json
import math
import pathlib
import sys

WIDTH = 160  # a longer object takes a line for each of its values, a longer list one for each of its elements
# Beside the 10th percentile these are no news.
BESIDE_PERCENTILES = {"mean_us", "min_us", "max_us", "min", "max"}
# For whoever watches a benchmark or has its machine: what a program wrote, names of configs without a time, what `kiln doctor` says of the machine beside its name.
WATCHED = {"output", "report", "ranking", "outcomes", "verdict", "summary", "features", "self_test", "advice"}
# What of a row a microsecond of a call moves or computes.
RATES = {"gb_s": ("bytes", 1e-3), "tflops": ("flops", 1e-6)}
SHORTEST_REPEATED = 16  # characters: shorter texts are written again, not as "="


def one_line(value):
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def compact(value):
    """What is kept of a value; an infinite number, a NaN, None and an empty object become None."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        rounded = value if value.is_integer() else float(f"{value:.4g}")
        return int(rounded) if rounded.is_integer() else rounded
    if isinstance(value, (list, tuple)):
        return [compact(element) for element in value]
    if isinstance(value, dict):
        left_out = WATCHED | (BESIDE_PERCENTILES if {"p10_us", "p10"} & value.keys() else set())
        kept = {name: compact(element) for name, element in value.items() if name not in left_out}
        for measured in measured_in(kept):
            for rate, (amount, _) in RATES.items():
                if amount in kept:
                    measured.pop(rate, None)
        return {name: element for name, element in kept.items() if element is not None} or None
    return value


def measured_in(row):
    """The objects of a row that have a median."""
    return [element for element in row.values() if isinstance(element, dict) and "median_us" in element]


def with_rates(row):
    for measured in measured_in(row):
        for rate, (amount, factor) in RATES.items():
            if amount in row:
                measured.setdefault(rate, compact(row[amount] * factor / measured["median_us"]))
    return row


def columns_of(rows):
    """The names in all rows in the order of their first appearance; [name, columns] where every row that has it has an object."""
    columns = []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        columns.append([name, columns_of(values)] if all(isinstance(value, dict) for value in values) else name)
    return columns


def cells_of(row, columns):
    for column in columns:
        if isinstance(column, list):
            yield from cells_of(row.get(column[0], {}), column[1])
        else:
            yield row.get(column)


def table_of(rows):
    columns, lines, above = columns_of(rows), [], {}
    for row in rows:
        cells = list(cells_of(row, columns))
        while cells and cells[-1] is None:
            cells.pop()
        for place, cell in enumerate(cells):
            if isinstance(cell, str) and len(cell) >= SHORTEST_REPEATED:
                if above.get(place) == cell:
                    cells[place] = "="
                above[place] = cell
        lines.append(cells)
    return {"columns": columns, "rows": lines}


def rows_of(table):
    above = {}

    def row_of(columns, cells):
        row = {}
        for column in columns:
            if isinstance(column, list):
                name, value = column[0], row_of(column[1], cells) or None
            else:
                name, (place, value) = column, next(cells, (None, None))
                value = above[place] if value == "=" else value
                if isinstance(value, str) and len(value) >= SHORTEST_REPEATED:
                    above[place] = value
            if value is not None:
                row[name] = value
        return row

    return [row_of(table["columns"], iter(enumerate(cells))) for cells in table["rows"]]


def with_tables(value):
    """Lists of objects as tables where those are shorter."""
    if isinstance(value, dict):
        return {name: with_tables(element) for name, element in value.items()}
    if isinstance(value, list) and value and all(isinstance(element, dict) for element in value):
        return min(value, table_of(value), key=lambda form: len(one_line(form)))
    return value


def expanded(value):
    """The other way: rows with their names and rates."""
    if isinstance(value, list):
        return [expanded(element) for element in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"columns", "rows"}:
        return expanded(rows_of(value))
    return with_rates({name: expanded(element) for name, element in value.items()})


def laid_out(value, indent="\n"):
    line = one_line(value)
    if len(line) <= WIDTH:
        return line
    if isinstance(value, dict):
        items = [f"{one_line(name)}: {laid_out(element, indent + ' ')}" for name, element in value.items()]
        return "{" + ",".join(f"{indent} {item}" for item in items) + indent + "}"
    if isinstance(value, list) and all(isinstance(element, (dict, list)) for element in value):
        return "[" + ",".join(f"{indent} {one_line(element)}" for element in value) + indent + "]"
    return line


def text_of(result):
    """The text of a result: an object, or a list of rows."""
    return laid_out(with_tables(compact(result) or {})) + "\n"


def parse(text):
    """What `text_of` wrote, with its rows as objects again."""
    return expanded(json.loads(text))


def read(path):
    return parse(pathlib.Path(path).read_text())


def write(path, result):
    pathlib.Path(path).write_text(text_of(result))


def emit(result):
    """Prints a benchmark's result, for benchmarks/run to read."""
    sys.stdout.write(text_of(result))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(name, read(name))
