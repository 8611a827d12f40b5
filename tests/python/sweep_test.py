"""kiln.sweep: rows for sizes, and the time that bounds them."""

from __future__ import annotations

import time
from typing import Any

import kiln
import numpy
import pytest
from refusal import refused


def rows_of_16(n: int) -> numpy.ndarray:
    return numpy.ones((n, 16), numpy.float32)


def test_an_op_has_a_row_for_each_size() -> None:
    table = kiln.sweep("softmax", [100, 7, 100, 1000], rows_of_16, dim=1, budget_s=0.1)
    assert [row["size"] for row in table] == [7, 100, 1000]
    assert table.ended == "" and table[0] == table[:1][0]
    for row in table:
        assert row["median_us"] > 0 and row["gb_s"] > 0 and row["tflop_s"] > 0
        assert row["config"] and row["config_source"] == "default"
    assert table[1]["gb_s"] == pytest.approx(table.benchmarks[1].bytes / table[1]["median_us"] * 1e-3)
    text = repr(table)
    assert text.startswith("softmax on ") and len(text.splitlines()) == 5
    assert table._repr_html_().count("<tr>") == 4
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame(table)["size"]) == [7, 100, 1000]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (lambda n: (rows_of_16(n), rows_of_16(n)), {}),
        (lambda n: [rows_of_16(n), rows_of_16(n), {"alpha": 2.0}], {}),
        (lambda n: (rows_of_16(n), rows_of_16(n)), {"alpha": 2.0, "config": {"BLOCK_SIZE": 64}}),
    ],
    ids=["tuple", "named", "options"],
)
def test_arguments_come_in_several_forms(arguments: Any, options: dict[str, Any]) -> None:
    (row,) = kiln.sweep("add", [50], arguments, budget_s=0.05, **options)
    assert row["median_us"] > 0
    assert row["config_source"] == ("given" if "config" in options else "default")


def test_any_callable_is_timed() -> None:
    table = kiln.sweep(numpy.exp, [10, 20], rows_of_16, budget_s=0.05)
    assert [row["gb_s"] for row in table] == [None, None]
    assert "exp on " in repr(table)


def test_what_takes_too_long_ends_the_sweep() -> None:
    start_s = time.monotonic()
    table = kiln.sweep(lambda n: time.sleep(n * 1e-3), [2, 20, 20_000], lambda n: n, budget_s=0.02, total_s=2)
    assert [row["size"] for row in table] == [2, 20]
    assert table.ended.startswith("20000: it would take about ") and "total_s gives more" in table.ended
    assert "the sweep ends here: 20000" in repr(table)
    assert time.monotonic() - start_s < 10


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ValueError, "sizes is empty", lambda: kiln.sweep("neg", [], rows_of_16)),
        (ValueError, "sizes has 0", lambda: kiln.sweep("neg", [4, 0], rows_of_16)),
        (TypeError, "sizes has 1.5", lambda: kiln.sweep("neg", [1.5], rows_of_16)),  # type: ignore[list-item]
        (TypeError, "sizes is 7", lambda: kiln.sweep("neg", 7, rows_of_16)),  # type: ignore[arg-type]
        (TypeError, "arguments is a ndarray", lambda: kiln.sweep("neg", [7], rows_of_16(7))),  # type: ignore[arg-type]
        (ValueError, "total_s=0", lambda: kiln.sweep("neg", [7], rows_of_16, total_s=0)),
        (kiln.UnknownOpError, "'sofmax'; did you mean 'softmax'", lambda: kiln.sweep("sofmax", [7], rows_of_16)),
        (ZeroDivisionError, "zero", lambda: kiln.sweep("neg", [7], lambda n: n / 0)),
    ],
)
def test_what_is_refused(error: type[Exception], words: str, call: Any) -> None:
    refused(error, words, call)
