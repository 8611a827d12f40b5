"""kiln.Stream, Event, wait_stream, fork_join, and launches that overlap."""

from __future__ import annotations

import gc
import threading
from typing import Any

import kiln
import numpy
import pytest
from random_arrays import normal
from refusal import refused

Random = numpy.random.Generator


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    return "cpu" if request.param == "cpu" else f"{request.getfixturevalue('gpu')}:0"


def test_a_stream_takes_calls(device: str, random: Random) -> None:
    values = normal(random, 100)
    stream = kiln.Stream(device)
    assert stream.device == device
    assert repr(stream).startswith(f"<kiln.Stream {device}")
    assert (stream.cuda_stream != 0) == (device != "cpu")
    assert stream.__cuda_stream__() == (0, stream.cuda_stream)
    x = kiln.to_device(values, device)
    out = kiln.empty((100,), "f32", device, stream=stream)
    assert kiln.ops.add(x, x, out=out, stream=stream) is out
    stream.synchronize()
    numpy.testing.assert_array_equal(out.numpy(), values + values)
    assert kiln.resolve("add", x, x, stream=stream)(x, x, stream=stream).shape == (100,)
    made = kiln.ops.uniform(size=[5], seed=1, stream=stream)
    assert (made.device if device != "cpu" else "cpu") == device


def test_results_outlive_their_stream(device: str, random: Random) -> None:
    values = normal(random, 1000)
    x = kiln.to_device(values, device)
    results = []
    for _ in range(20):
        stream = kiln.Stream(device)
        results.append(kiln.ops.neg(x, stream=stream))
        del stream
        gc.collect()
    for result in results:
        numpy.testing.assert_array_equal(result.numpy(), -values)


def test_priorities(device: str) -> None:
    least, greatest = kiln.stream_priority_range(device)
    assert greatest <= 0 <= least
    assert kiln.Stream(device).priority == 0
    assert kiln.Stream(device, priority=greatest).priority == greatest
    assert kiln.Stream(device, priority=greatest - 100).priority == greatest
    assert kiln.Stream(device, priority=least + 100).priority == least


def test_streams_wait_for_each_other(device: str, random: Random) -> None:
    first, second = kiln.Stream(device), kiln.Stream(device)
    for _ in range(20):
        values = normal(random, 1 << 16)
        x = kiln.to_device(values, device)
        out = kiln.to_device(numpy.full(1 << 16, numpy.nan, numpy.float32), device)
        kiln.ops.neg(x, out=out, stream=first)
        second.wait_stream(first)
        result = kiln.ops.add(out, x, stream=second)
        kiln.wait_stream(first, second)
        kiln.ops.neg(result, out=out, stream=first)
        first.synchronize()
        numpy.testing.assert_array_equal(out.numpy(), numpy.zeros_like(values))


def test_events(device: str, random: Random) -> None:
    first, second = kiln.Stream(device), kiln.Stream(device)
    event = kiln.Event(device)
    assert event.device == device
    assert event.is_done(), "not recorded yet"
    x = kiln.to_device(normal(random, 1 << 16), device)
    out = kiln.empty((1 << 16,), "f32", device, stream=first)
    kiln.ops.neg(x, out=out, stream=first)
    event.record(first)
    event.wait(second)
    result = kiln.ops.add(out, x, stream=second)
    done = kiln.Event(device)
    done.record(second)
    done.synchronize()
    assert done.is_done() and event.is_done()
    assert (result.numpy() == 0).all()


def test_timed_events(device: str, random: Random) -> None:
    start, stop = kiln.Event(device, timed=True), kiln.Event(device, timed=True)
    x = kiln.to_device(normal(random, 1 << 20), device)
    kiln.ops.exp(x)
    start.record()
    kiln.ops.exp(x)
    stop.record()
    stop.synchronize()
    assert start.elapsed_us(stop) > 0
    refused(ValueError, "timed", lambda: kiln.Event(device).elapsed_us(stop))


def test_branches_run_and_join(device: str, random: Random) -> None:
    values = normal(random, 3, 5000)
    x = [kiln.to_device(row, device) for row in values]
    stream = kiln.Stream(device)
    for x_i in x:
        kiln.ops.exp(x_i, stream=stream)

    def branch(row: int) -> Any:
        def work(own: kiln.Stream) -> Any:
            assert own.device == device
            partial = kiln.ops.mul(x[row], other=2.0)  # on the branch's stream
            return kiln.ops.neg(partial, stream=own)

        return work

    for _ in range(20):
        results = kiln.fork_join(stream, [branch(row) for row in range(3)])
        total = kiln.ops.add(kiln.ops.add(results[0], results[1], stream=stream), results[2], stream=stream)
        stream.synchronize()
        numpy.testing.assert_allclose(total.numpy(), -2 * values.sum(axis=0), rtol=1e-5, atol=1e-5)
    assert kiln.fork_join(stream, []) == []


def test_branches_of_torch(gpu: str) -> None:
    import torch

    x, y = torch.randn(1 << 16, device=gpu), torch.randn(1 << 16, device=gpu)

    def one(own: kiln.Stream) -> Any:
        assert torch.cuda.current_stream().cuda_stream == own.cuda_stream
        return kiln.ops.add(x * 2, y)

    def other(_: kiln.Stream) -> Any:
        return kiln.ops.sub(x, y) * 3

    for _ in range(20):
        left, right = kiln.fork_join(None, [one, other])
        torch.testing.assert_close(left + right, (x * 2 + y) + (x - y) * 3)


def test_branches_of_a_graph(device: str, random: Random) -> None:
    values = normal(random, 2, 300)
    x, y = (kiln.to_device(row, device) for row in values)
    kiln.warm_up([("neg", [x]), ("add", [x, y])])
    with kiln.capture(device=device) as graph:
        stream = None if device == "cpu" else kiln.Stream(device)
        if stream is not None:
            refused(ValueError, "not being captured|no graph", lambda: kiln.ops.neg(x, stream=stream))
    stream = kiln.Stream(device)
    with kiln.capture(stream) as graph:
        left, right = kiln.fork_join(stream, [lambda _: kiln.ops.neg(x), lambda _: kiln.ops.neg(y)])
        result = kiln.ops.add(left, right)
    assert graph.num_calls == 3
    for _ in range(3):
        graph.launch()
        numpy.testing.assert_array_equal(result.numpy(), -values[0] - values[1])
        numpy.testing.assert_array_equal(left.numpy(), -values[0])


def test_a_branch_that_raises(device: str, random: Random) -> None:
    stream = kiln.Stream(device)
    x = kiln.to_device(normal(random, 10), device)
    ran = []

    def bad(_: kiln.Stream) -> None:
        ran.append("bad")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kiln.fork_join(stream, [lambda _: ran.append("good"), bad, lambda _: ran.append("late")])
    assert ran == ["good", "bad"]
    kiln.ops.neg(x, stream=stream)
    stream.synchronize()


def test_branches_in_threads(random: Random) -> None:
    x = normal(random, 200)
    errors = []

    def work() -> None:
        try:
            for _ in range(50):
                results = kiln.fork_join(kiln.Stream("cpu"), [lambda _: kiln.ops.neg(x), lambda _: kiln.ops.exp(x)])
                numpy.testing.assert_array_equal(results[0], -x)
        except BaseException as error:  # shown by the test
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_what_is_no_stream(random: Random) -> None:
    x = normal(random, 10)
    stream = kiln.Stream("cpu")
    refused(TypeError, "5 says no device", lambda: kiln.wait_stream(stream, 5))
    refused(TypeError, "'x' says no device", lambda: stream.wait_stream("x"))
    refused(TypeError, "branch 1 is a int; expected a function", lambda: kiln.fork_join(stream, [lambda _: 1, 5]))
    refused(ValueError, "tpu", lambda: kiln.Stream("tpu"))
    refused(ValueError, "cuda:99", lambda: kiln.Stream("cuda:99"))
    refused(ValueError, "cuda:99", lambda: kiln.Event("cuda:99"))
    refused(TypeError, "on the CPU", lambda: kiln.ops.neg(x, stream=12345))
    assert (kiln.ops.neg(x, stream=stream) == -x).all()


def test_a_stream_of_another_device(gpu: str, random: Random) -> None:
    x = kiln.to_device(normal(random, 10), gpu)
    refused(ValueError, "stream of cpu, and the work is on cuda:0", lambda: kiln.ops.neg(x, stream=kiln.Stream("cpu")))
    with pytest.raises(ValueError, match="stream of cuda:0, and the work is on cpu"):
        kiln.ops.neg(normal(random, 10), stream=kiln.Stream(gpu))


def test_the_default_device_is_the_gpu_where_there_is_one() -> None:
    expected = "cuda:0" if len(kiln.devices()) > 1 else "cpu"
    assert kiln.Stream().device == kiln.Event().device == kiln.capture().__enter__().device == expected


def test_overlap_is_an_option_of_every_call(device: str, random: Random) -> None:
    values = normal(random, 2, 1000)
    x, y = (kiln.to_device(row, device) for row in values)
    for result in (
        kiln.ops.add(x, y, overlap_previous=True),
        kiln.dispatch_gpu_op("add", x, y, overlap_previous=True),
        kiln.resolve("add", x, y, overlap_previous=True)(x, y),
        kiln.ops.add(x, y, overlap_previous=False),
        kiln.ops.add(x, y, overlap_previous=None),
    ):
        numpy.testing.assert_array_equal(result.numpy(), values[0] + values[1])
    (kernel,) = kiln.resolve("add", x, y, overlap_previous=True).report.kernels
    (plain,) = kiln.resolve("add", x, y).report.kernels
    assert not plain.overlaps_previous
    if device == "cpu":
        assert not kernel.overlaps_previous
    refused(TypeError, "overlap_previous: expected True or False", lambda: kiln.ops.add(x, y, overlap_previous=1))
    refused(ValueError, "overlap_previous", lambda: kiln.resolve("add", x, y)(x, y, overlap_previous=True))


def test_a_chain_that_overlaps(gpu: str, random: Random) -> None:
    values = normal(random, 1 << 18)
    x = kiln.to_device(values, gpu)
    steps = [kiln.empty((1 << 18,), "f32", gpu) for _ in range(20)]
    kiln.synchronize()
    kiln.ops.add(x, other=1.0, out=steps[0], overlap_previous=True)
    for before, after in zip(steps, steps[1:]):
        kiln.ops.add(before, other=1.0, out=after, overlap_previous=True)
    expected = values
    for _ in steps:
        expected = expected + numpy.float32(1)
    numpy.testing.assert_array_equal(steps[-1].numpy(), expected)
