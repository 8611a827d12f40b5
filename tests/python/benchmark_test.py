"""kiln.benchmark: ops, callables, and one beside the other."""

from __future__ import annotations

import time
from typing import Any

import kiln
import numpy
import pytest
from refusal import refused


@pytest.fixture
def x() -> numpy.ndarray:
    return numpy.ones((300, 40), numpy.float32)


def test_an_op_is_timed(x: numpy.ndarray) -> None:
    measured = kiln.benchmark("add", x, x, samples=12)
    assert measured.name == "add"
    assert len(measured.samples_us) == 12
    assert measured.interval_us is not None
    low_us, high_us = measured.interval_us
    assert measured.min_us <= measured.p10_us <= measured.median_us <= measured.p90_us
    assert low_us <= measured.median_us <= high_us
    assert measured.median_us == pytest.approx(numpy.median(measured.samples_us))
    assert measured.bytes == 3 * x.nbytes
    assert measured.flops == x.size
    assert measured.gb_s == pytest.approx(measured.bytes / measured.median_us * 1e-3)
    assert measured.tflop_s == pytest.approx(measured.flops / measured.median_us * 1e-6)
    assert measured.device == "cpu"
    assert measured.policy == "eager, hot L2"
    assert measured.variant == "contiguous"
    assert measured.config_source == "default"
    assert measured.share_of_roofline is None  # the CPU does not say what its memory can do


def test_few_samples_have_no_interval(x: numpy.ndarray) -> None:
    measured = kiln.benchmark(kiln.ops.add, x, x, samples=3)
    assert measured.interval_us is None
    assert "(" not in str(measured).split(",")[0]


def test_a_given_config_is_timed(x: numpy.ndarray) -> None:
    measured = kiln.benchmark("add", x, x, samples=6, config="BLOCK_SIZE=256")
    assert measured.config is not None
    assert measured.config["BLOCK_SIZE"] == 256
    assert measured.config_source == "given"


def test_the_budget_bounds_the_time(x: numpy.ndarray) -> None:
    start = time.monotonic()
    kiln.benchmark("add", x, x, budget_s=0.2)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("against", ["default", "reference", "BLOCK_SIZE=256", {"BLOCK_SIZE": 256}, "sub", numpy.add])
def test_two_take_turns(x: numpy.ndarray, against: Any) -> None:
    measured = kiln.benchmark("add", x, x, samples=8, against=against)
    assert measured.against is not None
    assert len(measured.against.samples_us) == 8
    assert measured.speedup is not None
    assert measured.speedup > 0
    assert measured.against.against is None
    assert measured.against.name != measured.name
    assert f"x as fast as {measured.against.name}" in str(measured)


def test_a_callable_is_called_with_tensors_and_attributes() -> None:
    calls: list[tuple[object, ...]] = []

    def mean(values: numpy.ndarray, dim: int) -> None:
        calls.append((values.shape, dim))

    values = numpy.ones((3, 4), numpy.float32)
    kiln.benchmark("mean", values, dim=1, samples=2, against=mean)
    assert set(calls) == {((3, 4), 1)}
    measured = kiln.benchmark(mean, values, dim=0, samples=2)
    assert measured.name == "mean"
    assert measured.gb_s is None
    assert ((3, 4), 0) in calls


def test_long_calls_are_timed_one_by_one() -> None:
    measured = kiln.benchmark(time.sleep, 0.002, samples=3)
    assert measured.median_us >= 2000
    assert measured.name == "sleep"


def test_the_same_work_is_measured_alike() -> None:
    """The clock is one clock: what sleeps twice as long takes twice as long, whoever comes first."""
    measured = kiln.benchmark(lambda: time.sleep(0.002), samples=8, against=lambda: time.sleep(0.004))
    assert measured.speedup is not None
    assert 1.3 < measured.speedup < 2.6


def test_what_a_callable_raises_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        kiln.benchmark(lambda: 1 / 0)
    assert kiln.benchmark("neg", numpy.ones(3, numpy.float32), samples=1).median_us > 0


def test_inputs_that_the_op_changes_are_copied() -> None:
    key = numpy.ones((1, 1, 8), numpy.float32)
    cache = numpy.zeros((2, 2, 1, 8), numpy.float32)
    kiln.benchmark("kv_append", key, key, cache, cache.copy(), numpy.array([0]), samples=2, against="reference")
    assert not cache.any()


def test_ops_without_inputs_are_timed() -> None:
    assert kiln.benchmark("uniform", size=[100], seed=1, samples=2).median_us > 0
    assert kiln.benchmark("uniform", size=[100], seed=1, device="cpu", samples=2).median_us > 0


def test_a_row_for_a_table(x: numpy.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([kiln.benchmark(op, x, x, samples=6).to_dict() for op in ("add", "mul")])
    assert list(frame["name"]) == ["add", "mul"]
    assert frame["gb_s"].dtype == numpy.float64


def test_wrong_calls_are_refused(x: numpy.ndarray) -> None:
    refused(ValueError, "samples=0", lambda: kiln.benchmark("add", x, x, samples=0))
    refused(TypeError, "samples=1.5", lambda: kiln.benchmark("add", x, x, samples=1.5))
    refused(TypeError, "budget_s='1s'", lambda: kiln.benchmark("add", x, x, budget_s="1s"))
    refused(ValueError, "budget_s=0", lambda: kiln.benchmark("add", x, x, budget_s=0))
    refused(TypeError, "name of an op", lambda: kiln.benchmark(3))
    refused(TypeError, "name of an op", lambda: kiln.benchmark("add", x, x, against=3))
    refused(ValueError, "did you mean", lambda: kiln.benchmark("ad", x, x))
    refused(ValueError, "for GPUs", lambda: kiln.benchmark("add", x, x, graph=True))
    refused(ValueError, "for GPUs", lambda: kiln.benchmark("add", x, x, flush_l2=True))
    refused(NotImplementedError, "ops of Kiln only", lambda: kiln.benchmark(numpy.add, x, x, graph=True))
    refused(TypeError, "is none", lambda: kiln.benchmark(numpy.add, x, x, against="default"))
    refused(ValueError, "BLOCK_SIZE", lambda: kiln.benchmark("add", x, x, config={"BLOCK_SIZE": 3}))


def test_on_a_gpu(gpu: str) -> None:
    import torch

    x = torch.ones(1 << 20, device=gpu)
    measured = kiln.benchmark("add", x, x, samples=10, against=torch.add)
    assert measured.device == "cuda:0"
    assert measured.policy == "eager, flushed L2"
    assert measured.share_of_roofline is not None
    assert 0 < measured.share_of_roofline < 1.5
    replayed = kiln.benchmark("add", x, x, samples=10, graph=True, flush_l2=False)
    assert replayed.policy == "graph, hot L2"


def test_launches_that_overlap(gpu: str) -> None:
    x = kiln.to_device(numpy.ones(4096, numpy.float32), gpu)
    timed = kiln.benchmark("add", x, x, graph=True, overlap_previous=True, against=kiln.ops.add, samples=20)
    assert timed.against is not None and timed.median_us > 0
