"""kiln.tuning_history: what was tried and chosen, when, as kiln.autotune and the command left it."""

from __future__ import annotations

import datetime
from typing import Any

import kiln
import numpy
import pytest
from refusal import refused

SHAPE = (37, 41)  # of no other test's


@pytest.fixture(scope="module")
def table() -> kiln.TuningTable:
    x = numpy.ones(SHAPE, numpy.float32)
    return kiln.autotune("transpose", x, budget_s=5, progress=False)


def test_a_record_says_what_the_table_says(table: kiln.TuningTable) -> None:
    (record,) = kiln.tuning_history("transpose", numpy.ones(SHAPE, numpy.float32))
    assert (record.op, record.dtypes, record.shapes) == ("transpose", "f32", "37x41")
    assert record.config == table.chosen["config"]
    assert record.default_config == table.default["config"]
    assert record.median_us == pytest.approx(table.chosen["median_us"], rel=1e-4)
    assert record.default_us == pytest.approx(table.default["median_us"], rel=1e-4)
    assert {tuple(tried["config"].items()) for tried in record.tried} == {tuple(row["config"].items()) for row in table}
    age = datetime.datetime.now(datetime.timezone.utc) - record.date
    assert datetime.timedelta(0) <= age < datetime.timedelta(hours=1)
    assert record.history[-1]["config"] == record.config
    assert record.history[-1]["median_us"] == pytest.approx(record.median_us, rel=1e-4)
    row = record.to_dict()
    assert row["configs"] == len(record.tried) and "tried" not in row


@pytest.mark.parametrize(
    ("filters", "is_there"),
    [
        ({}, True),
        ({"dtype": "f32"}, True),
        ({"dtype": numpy.float32, "shape": SHAPE}, True),
        ({"shape": "37x41"}, True),
        ({"dtype": "f16"}, False),
        ({"shape": (37, 42)}, False),
    ],
)
def test_records_are_found(table: kiln.TuningTable, filters: dict[str, Any], is_there: bool) -> None:
    for op in ("transpose", kiln.ops.transpose, None):
        found = [record for record in kiln.tuning_history(op, **filters) if record.shapes == "37x41"]
        assert bool(found) == is_there
    dates = [record.date for record in kiln.tuning_history()]
    assert dates == sorted(dates, reverse=True)


def test_a_call_that_was_never_tuned_has_none() -> None:
    assert kiln.tuning_history("transpose", numpy.ones((5, 5), numpy.float32)) == []
    assert kiln.tuning_history("transpose", kiln.TensorMeta("f32", (5, 5))) == []


def recorded(config: dict[str, int], x: numpy.ndarray) -> numpy.ndarray:
    if config["KIND"] == 0:
        raise ValueError("no such kind")
    return x + x


def test_functions_have_records_too() -> None:
    configs = [{"KIND": 0}, {"KIND": 1}]
    kiln.autotune(recorded, numpy.ones(10), configs=configs, budget_s=0.5, progress=False)
    (record,) = kiln.tuning_history(recorded)
    assert record.op == f"{__name__}.recorded"
    assert record.config == {"KIND": 1}
    failed = next(tried for tried in record.tried if tried["config"] == {"KIND": 0})
    assert (failed["outcome"], failed["reason"], failed["median_us"]) == (
        "unlaunched",
        "ValueError: no such kind",
        None,
    )


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (kiln.UnknownOpError, "'transpos'", lambda: kiln.tuning_history("transpos")),
        (TypeError, "op is 5", lambda: kiln.tuning_history(5)),
        (TypeError, "go with an op", lambda: kiln.tuning_history(None, numpy.ones(3))),
        (TypeError, "recorded; tensors", lambda: kiln.tuning_history(recorded, numpy.ones(3))),
        (ValueError, "f33", lambda: kiln.tuning_history("transpose", dtype="f33")),
    ],
)
def test_what_is_refused(error: type[Exception], words: str, call: Any) -> None:
    refused(error, words, call)
