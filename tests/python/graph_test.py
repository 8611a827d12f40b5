"""kiln.capture and Graph: work recorded once and replayed."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kiln
import numpy
import pytest
from random_arrays import normal
from refusal import refused

Array = numpy.ndarray
Random = numpy.random.Generator


def softmax(x: Array) -> Array:
    e = numpy.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class Layer:
    """Two ops over arrays of one library; on a GPU torch's."""

    def __init__(self, random: Random, device: str, rows: int = 8) -> None:
        self.random, self.device, self.rows = random, device, rows
        self.x, self.y = self.array(), self.array()
        kiln.warm_up([("add", [self.x, self.y]), ("softmax", [self.x], {"dim": 1})])

    def array(self) -> Any:
        values = normal(self.random, self.rows, 64)
        if self.device == "cpu":
            return values
        import torch

        return torch.from_numpy(values).to(self.device)

    def numpy(self, array: Any) -> Array:
        if self.device == "cpu":
            return array
        import torch

        torch.cuda.synchronize()
        return array.cpu().numpy()

    def fill(self, array: Any, values: Any) -> None:
        if self.device == "cpu":
            array[...] = values
        elif isinstance(values, float):
            array.fill_(values)
        else:
            array.copy_(values)

    def call(self) -> Any:
        return kiln.ops.softmax(kiln.ops.add(self.x, self.y), dim=1)

    def check(self, result: Any, x: Any, y: Any) -> None:
        numpy.testing.assert_allclose(self.numpy(result), softmax(self.numpy(x) + self.numpy(y)), rtol=1e-5, atol=1e-6)


def is_let_go(reference: weakref.ref[Any], device: str) -> bool:
    """On a GPU the driver says when a graph's memory may go, and the next allocation lets go of it."""
    deadline = time.monotonic() + 30
    while reference() is not None and time.monotonic() < deadline:
        gc.collect()
        kiln.empty((1,), "f32", device)
    return reference() is None


@pytest.fixture(params=["cpu", "cuda"])
def layer(request: pytest.FixtureRequest, random: Random) -> Layer:
    device = request.param if request.param == "cpu" else request.getfixturevalue("gpu")
    return Layer(random, device)


def test_a_graph_replays_with_fresh_data(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as graph:
        result = layer.call()
    assert type(result) is type(layer.x)
    assert graph.num_calls == len(graph.calls) == 2
    assert [call.op for call in graph.calls] == ["add", "softmax"]
    assert graph.memory_bytes >= 2 * 8 * 64 * 4
    assert graph.device.startswith(layer.device)
    for launch in (graph.launch, graph.replay, graph.launch):
        layer.fill(layer.x, layer.array())
        layer.fill(layer.y, layer.array())
        layer.fill(result, float("nan"))
        launch()
        layer.check(result, layer.x, layer.y)


def test_nothing_runs_while_it_is_recorded(layer: Layer) -> None:
    out = layer.array()
    before = layer.numpy(out).copy()
    with kiln.capture(device=layer.device) as graph:
        assert kiln.ops.add(layer.x, layer.y, out=out) is out
    assert (layer.numpy(out) == before).all()
    graph.launch()
    numpy.testing.assert_array_equal(layer.numpy(out), layer.numpy(layer.x) + layer.numpy(layer.y))


def test_what_a_graph_holds(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as graph:
        result = layer.call()
    x, y = layer.numpy(layer.x).copy(), layer.numpy(layer.y).copy()
    gone = weakref.ref(layer.x)
    layer.x = layer.y = None
    gc.collect()
    assert gone() is not None, "the graph reads it"
    layer.fill(result, float("nan"))
    graph.launch()
    expected = softmax(x + y)
    numpy.testing.assert_allclose(layer.numpy(result), expected, rtol=1e-5, atol=1e-6)
    del graph
    assert is_let_go(gone, layer.device)
    numpy.testing.assert_allclose(layer.numpy(result), expected, rtol=1e-5, atol=1e-6)


def test_a_result_that_was_dropped_harms_no_launch(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as graph:
        layer.call()
    gc.collect()
    others = [layer.array() for _ in range(4)]
    copies = [layer.numpy(other).copy() for other in others]
    graph.launch()
    for other, copy in zip(others, copies):
        numpy.testing.assert_array_equal(layer.numpy(other), copy)


def test_a_call_reads_other_arrays_after_an_update(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as graph:
        result = layer.call()
    x, y = layer.array(), layer.array()
    graph.update(0, [x, y])
    layer.fill(result, float("nan"))
    graph.launch()
    layer.check(result, x, y)
    graph.update(-2, [None, layer.y])  # x stays
    gone = weakref.ref(y)
    del y
    layer.fill(result, float("nan"))
    graph.launch()
    layer.check(result, x, layer.y)
    graph.update(0, [None, layer.array()])
    assert is_let_go(gone, layer.device), "nobody reads it any more"
    out = layer.array()
    graph.update(1, outputs=out)
    graph.update(0, (x, layer.y), None)
    layer.fill(result, 0.5)
    graph.launch()
    layer.check(out, x, layer.y)
    assert (layer.numpy(result) == 0.5).all()
    address = out.ctypes.data if layer.device == "cpu" else out.data_ptr()
    assert graph.call(1).outputs[0].data_ptr == address


def test_an_array_of_an_update_lives_with_the_graph(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as graph:
        result = layer.call()
    x = layer.array()
    copy = layer.numpy(x).copy()
    graph.update(0, [x, None])
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is not None
    graph.launch()
    numpy.testing.assert_allclose(layer.numpy(result), softmax(copy + layer.numpy(layer.y)), rtol=1e-5, atol=1e-6)
    del graph
    assert is_let_go(gone, layer.device)


def test_a_graph_takes_another_body(layer: Layer) -> None:
    kiln.warm_up([("add", [layer.x, layer.y], {"alpha": alpha}) for alpha in (3.0, -2.0)])  # one kernel
    with kiln.capture(device=layer.device) as graph:
        kiln.ops.softmax(kiln.ops.add(layer.x, layer.y, alpha=3.0), dim=1)
    x, y = layer.array(), layer.array()
    with graph.update() as same:
        result = kiln.ops.softmax(kiln.ops.add(x, y, alpha=-2.0), dim=1)
    assert same is graph
    layer.fill(result, float("nan"))
    graph.launch()
    layer.check(result, x, -2 * y)
    with pytest.raises(ValueError, match=r"cannot be updated to this body: .*add\(.*kiln\.capture"):
        with graph.update():
            kiln.ops.softmax(x, dim=1)
    with pytest.raises(ZeroDivisionError):
        with graph.update():
            raise ZeroDivisionError
    layer.fill(result, float("nan"))
    graph.launch()
    layer.check(result, x, -2 * y)


def test_updates_that_do_not_fit_are_refused(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as graph:
        result = layer.call()
    with pytest.raises(ValueError, match=r"call 0 of the graph cannot be updated: .*input 'x'"):
        graph.update(0, [layer.array()[:4], layer.y])
    refused(ValueError, "1 inputs were given, and the call has 2", lambda: graph.update(0, [layer.x]))
    refused(ValueError, "call 2 of a graph was asked for, which holds 2 calls", lambda: graph.update(2, [layer.x]))
    refused(ValueError, "call -3 of a graph", lambda: graph.call(-3))
    refused(TypeError, r"inputs\[1\]: expected an array, got list", lambda: graph.update(0, [layer.x, [1.0]]))
    refused(TypeError, "give the call's number", lambda: graph.update(inputs=[layer.x, layer.y]))
    layer.fill(result, float("nan"))
    graph.launch()
    layer.check(result, layer.x, layer.y)


def test_a_read_only_array_takes_no_result(random: Random) -> None:
    layer = Layer(random, "cpu")
    with kiln.capture(device="cpu") as graph:
        layer.call()
    out = layer.array()
    out.flags.writeable = False
    refused(ValueError, r"outputs\[0\] is read-only", lambda: graph.update(1, outputs=[out]))
    graph.update(0, [out, out])


def test_a_cold_call_names_warm_up_and_the_recording_goes_on(layer: Layer) -> None:
    cold = layer.array().astype(numpy.float64) if layer.device == "cpu" else layer.array().double()
    with kiln.capture(device=layer.device) as graph:
        refused(ValueError, r"op 'tan' is not compiled and loaded yet .* kiln\.warm_up", lambda: kiln.ops.tan(cold))
        result = layer.call()
    assert graph.num_calls == 2
    graph.launch()
    layer.check(result, layer.x, layer.y)
    kiln.warm_up([(kiln.ops.tan, cold)])
    with kiln.capture(device=layer.device) as graph:
        result = kiln.ops.tan(cold)
    graph.launch()
    numpy.testing.assert_allclose(layer.numpy(result), numpy.tan(layer.numpy(cold)), rtol=1e-10)


def test_an_exception_ends_the_recording(layer: Layer) -> None:
    with pytest.raises(ZeroDivisionError):
        with kiln.capture(device=layer.device) as graph:
            layer.call()
            raise ZeroDivisionError
    for use in (graph.launch, lambda: graph.num_calls, lambda: graph.update(0), lambda: graph.update().__enter__()):
        with pytest.raises(ValueError, match="its recording ended with an exception"):
            use()
    layer.check(layer.call(), layer.x, layer.y)
    with kiln.capture(device=layer.device) as graph:
        result = layer.call()
    graph.launch()
    layer.check(result, layer.x, layer.y)


def test_a_graph_is_used_after_its_block(layer: Layer) -> None:
    recording = kiln.capture(device=layer.device)
    with recording as graph:
        refused(ValueError, "still being recorded", lambda: graph.launch())
        layer.call()
    refused(ValueError, "entered once", lambda: recording.__enter__())
    refused(ValueError, "left already", lambda: recording.__exit__(None, None, None))
    refused(ValueError, "not entered", lambda: kiln.capture(device=layer.device).__exit__(None, None, None))
    refused(TypeError, "no constructor", lambda: kiln.Graph())


def test_captures_of_one_stream_do_not_nest(layer: Layer) -> None:
    stream = kiln.Stream(layer.device)
    with kiln.capture(stream) as graph:
        with pytest.raises(ValueError, match="captured already"):
            with kiln.capture(stream):
                pass
        result = layer.call()
    graph.launch()
    layer.check(result, layer.x, layer.y)


def test_a_graph_in_the_body_of_another(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as inner:
        summed = kiln.ops.add(layer.x, layer.y)
    x = layer.array()
    inner.update(0, [x, None])
    with kiln.capture(device=layer.device) as outer:
        inner.launch()
        result = kiln.ops.softmax(summed, dim=1)
    assert [call.op for call in outer.calls] == ["graph", "softmax"]
    del inner
    gone = weakref.ref(x)
    copy = layer.numpy(x).copy()
    del x
    gc.collect()
    assert gone() is not None, "the outer graph reads it"
    layer.fill(result, float("nan"))
    outer.launch()
    numpy.testing.assert_allclose(layer.numpy(result), softmax(copy + layer.numpy(layer.y)), rtol=1e-5, atol=1e-6)


def test_resolved_ops_and_changed_inputs_are_recorded(layer: Layer) -> None:
    resolved = kiln.resolve("add", layer.x, layer.y)
    x, out = layer.array(), layer.array()
    resolved(x, layer.y)
    with kiln.capture(device=layer.device) as graph:
        first = resolved(x, layer.y)
        resolved(first, layer.y, out=out)
    assert graph.num_calls == 2
    gone = weakref.ref(x)
    expected = layer.numpy(x) + layer.numpy(layer.y) + layer.numpy(layer.y)
    del x, first
    gc.collect()
    assert gone() is not None
    layer.fill(out, float("nan"))
    graph.launch()
    numpy.testing.assert_allclose(layer.numpy(out), expected, rtol=1e-6)


def test_several_results(layer: Layer) -> None:
    kiln.ops.max(layer.x, dim=1)
    with kiln.capture(device=layer.device) as graph:
        values, indices = kiln.ops.max(layer.x, dim=1)
    layer.fill(layer.x, layer.array())
    graph.launch()
    numpy.testing.assert_array_equal(layer.numpy(values), layer.numpy(layer.x).max(axis=1))
    numpy.testing.assert_array_equal(layer.numpy(indices), layer.numpy(layer.x).argmax(axis=1))


def test_results_in_torch_and_through_dlpack(random: Random) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(normal(random, 5, 9))
    kiln.ops.neg(x)
    with kiln.capture(device="cpu") as graph:
        result = kiln.ops.neg(x)
    assert isinstance(result, torch.Tensor)
    view = result[1:, ::2].t()
    x.copy_(torch.from_numpy(normal(random, 5, 9)))
    result.fill_(float("nan"))
    graph.launch()
    assert torch.equal(view, -x[1:, ::2].t())
    tensor = kiln.to_device(x.numpy(), "cpu")
    with kiln.capture(device="cpu") as graph:
        result = kiln.ops.neg(tensor)
    assert isinstance(result, kiln.Tensor)
    exported, array = torch.from_dlpack(result), numpy.from_dlpack(result)
    del result
    exported.fill_(float("nan"))
    graph.launch()
    assert torch.equal(exported, -x)
    del graph, exported
    gc.collect()
    numpy.testing.assert_array_equal(array, -x.numpy())


def test_a_tensor_of_kilns_follows_launches_on_any_stream(gpu: str, random: Random) -> None:
    values = normal(random, 1 << 20)
    x = kiln.to_device(values, gpu)
    kiln.ops.neg(x)
    with kiln.capture(device=gpu) as graph:
        result = kiln.ops.neg(x)
    for stream in (None, kiln.Stream(gpu), 0):
        graph.launch(stream)
        numpy.testing.assert_array_equal(result.numpy(), -values)


def test_launches_on_another_device_are_refused(gpu: str, random: Random) -> None:
    with kiln.capture(device="cpu") as graph:
        pass
    refused(ValueError, "recorded on cpu", lambda: graph.launch(kiln.Stream(gpu)))
    with kiln.capture(device=gpu) as graph:
        refused(ValueError, "in the body of a graph of cuda:0", lambda: kiln.ops.neg(numpy.ones(3, numpy.float32)))
    refused(ValueError, "recorded on cuda:0", lambda: graph.launch(kiln.Stream("cpu")))


def test_the_default_stream_cannot_be_recorded(gpu: str) -> None:
    with pytest.raises(ValueError, match=r"kiln\.Stream"):
        with kiln.capture(0, device=gpu):
            pass


def test_a_stream_of_torch_is_recorded(gpu: str) -> None:
    import torch

    stream = torch.cuda.Stream()
    x = torch.randn(100, device=gpu)
    kiln.ops.neg(x)
    with kiln.capture(stream) as graph:
        result = kiln.ops.neg(x)
    x.copy_(torch.randn(100))
    graph.launch()
    assert torch.equal(result, -x)


@pytest.mark.parametrize(
    ("stream", "device", "says"),
    [
        (5, None, "5 says no device"),
        ("x", None, "'x' says no device"),
        (5, "cpu", "on the CPU"),
        (None, "tpu", "tpu"),
        (None, "cuda:99", "cuda:99"),
    ],
)
def test_what_cannot_be_recorded(stream: Any, device: Any, says: str) -> None:
    refused((ValueError, TypeError), says, lambda: kiln.capture(stream, device=device))


def test_threads_record_and_launch_graphs_of_their_own(random: Random) -> None:
    layers = [Layer(numpy.random.default_rng(seed), "cpu") for seed in random.integers(2**31, size=6)]
    barrier = threading.Barrier(len(layers))

    def work(layer: Layer) -> None:
        barrier.wait()
        for _ in range(20):
            with kiln.capture(device="cpu") as graph:
                result = layer.call()
            assert graph.num_calls == 2
            layer.fill(layer.x, layer.array())
            graph.launch()
            layer.check(result, layer.x, layer.y)

    with ThreadPoolExecutor(len(layers)) as pool:
        list(pool.map(work, layers))


def test_one_graph_from_many_threads(layer: Layer) -> None:
    with kiln.capture(device=layer.device) as graph:
        result = layer.call()

    def work(_: int) -> None:
        for _ in range(50):
            graph.launch()
            graph.update(0, [layer.x, layer.y])
            assert graph.call(0).op == "add"

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    layer.check(result, layer.x, layer.y)


def in_a_thread(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_other_threads_are_not_recorded(random: Random) -> None:
    layer = Layer(random, "cpu")
    with kiln.capture(device="cpu") as graph:
        in_a_thread(lambda: layer.check(layer.call(), layer.x, layer.y))
    assert graph.num_calls == 0


def test_a_block_is_left_on_its_thread(random: Random) -> None:
    layer = Layer(random, "cpu")
    recording = kiln.capture(device="cpu")
    graph = recording.__enter__()

    def leave() -> None:
        refused(ValueError, "on the thread that entered it", lambda: recording.__exit__(None, None, None))

    in_a_thread(leave)
    layer.call()
    recording.__exit__(None, None, None)
    assert graph.num_calls == 2


def test_a_generator_that_is_thrown_away_ends_its_recording(random: Random) -> None:
    layer = Layer(random, "cpu")

    def steps() -> Iterator[None]:
        with kiln.capture(device="cpu"):
            layer.call()
            yield

    generator = steps()
    next(generator)
    del generator
    gc.collect()
    layer.check(layer.call(), layer.x, layer.y)
