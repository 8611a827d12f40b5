"""The tuning policy of the process, and its log."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import kiln
import numpy
import pytest

BUDGET_S = 10.0


@pytest.fixture
def policy() -> Iterator[str]:
    former = kiln.tuning_policy()
    yield former
    kiln.set_tuning_policy(former)
    kiln.set_tuning_log(None)


def test_the_policy_is_set_and_put_back(policy: str) -> None:
    kiln.set_tuning_policy("nearest")
    with kiln.tuning("off"):
        assert kiln.tuning_policy() == "off"
        with pytest.raises(ValueError, match="first_use"), kiln.tuning("sometimes"):
            pass
        assert kiln.tuning_policy() == "off"
    assert kiln.tuning_policy() == "nearest"
    with pytest.raises(LookupError), kiln.tuning("use"):
        raise LookupError
    assert kiln.tuning_policy() == "nearest"
    with pytest.raises(ValueError, match="'sometimes'"):
        kiln.set_tuning_policy("sometimes")


def test_off_plans_without_what_was_tuned() -> None:
    x = numpy.ones(8001, numpy.float32)
    kiln.autotune("neg", x, budget_s=BUDGET_S, progress=False)
    with kiln.tuning("off"):
        assert kiln.resolve("neg", x).report.config_source == "default"
    assert kiln.resolve("neg", x).report.config_source == "tuned"


def test_the_log_hears_of_first_uses(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    kiln.set_tuning_log(lines.append)
    monkeypatch.setenv("KILN_TUNING_BUDGET", "1")
    x = numpy.ones(9001, numpy.float32)
    with kiln.tuning("first_use"):
        numpy.testing.assert_array_equal(kiln.ops.neg(x), -x)
    assert len(lines) == 1
    assert "'neg' was tuned at its first use" in lines[0]
    kiln.set_tuning_log(None)
    with kiln.tuning("first_use"):
        kiln.ops.neg(numpy.ones(9002, numpy.float32))
    assert len(lines) == 1
    with pytest.raises(TypeError, match="callable"):
        kiln.set_tuning_log("stderr")  # type: ignore[arg-type]


def test_the_log_hears_of_nearest_shapes(policy: str) -> None:
    kiln.autotune("neg", numpy.ones((9201, 3), numpy.float32), budget_s=BUDGET_S, progress=False)
    lines: list[str] = []
    kiln.set_tuning_log(lines.append)
    x = numpy.ones((9202, 3), numpy.float32)
    with kiln.tuning("nearest"):
        for _ in range(3):
            kiln.ops.neg(x)
        source = kiln.resolve("neg", x).report.config_source
    kiln.ops.neg(numpy.ones((9203, 3), numpy.float32))
    assert source.startswith("tuned for ")
    assert len(lines) == 1  # the plan is made once
    assert lines[0].startswith("op 'neg': ")
    assert lines[0].endswith(source)


def test_what_the_log_raises_does_not_reach_the_call(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    monkeypatch.setenv("KILN_TUNING_BUDGET", "1")
    x = numpy.ones(9101, numpy.float32)

    def log(line: str) -> None:
        raise LookupError(line)

    kiln.set_tuning_log(log)
    with kiln.tuning("first_use"):
        numpy.testing.assert_array_equal(kiln.ops.neg(x), -x)
    assert len(heard) == 1
