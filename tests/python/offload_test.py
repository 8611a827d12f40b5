"""The offload library from Python: pinned memory, copies, swaps, packed gathers and pipelines."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable
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


@pytest.fixture
def pool(device: str) -> kiln.PinnedPool:
    return kiln.PinnedPool(device)


def pinned(pool: kiln.PinnedPool, values: numpy.ndarray) -> numpy.ndarray:
    view = pool.empty(values.shape, values.dtype).numpy()
    view[...] = values
    return view


def test_a_pool_hands_blocks_out_again(pool: kiln.PinnedPool, device: str) -> None:
    assert pool.device == device
    tensor = pool.empty((100, 656), "u8")
    assert (tensor.shape, tensor.dtype, tensor.device) == ((100, 656), kiln.DType.u8, "cpu")
    assert tensor.data_ptr % 4096 == 0
    size = -(-100 * 656 // 4096) * 4096
    view, address = tensor.numpy()[5:, ::2], tensor.data_ptr
    del tensor
    gc.collect()
    assert pool.statistics().in_use_bytes == size, "the view holds the block"
    view[...] = 7
    del view
    gc.collect()
    assert pool.statistics().to_dict() == {
        "in_use_bytes": 0,
        "pending_bytes": 0,
        "cached_bytes": size,
        "peak_bytes": size,
        "allocations": 1,
        "reuses": 0,
    }
    assert pool.empty(100 * 656, "i8").data_ptr == address
    assert pool.statistics().reuses == 1
    pool.trim()
    assert pool.statistics().cached_bytes == 0
    assert pool.empty((0, 3)).shape == (0, 3)
    assert "0 B in use" in repr(pool)


def test_views_outlive_their_pool(device: str, random: Random) -> None:
    values = normal(random, 5000)
    with kiln.PinnedPool(device) as pool:
        view = pinned(pool, values)
    assert pool.closed and repr(pool) == f"<kiln.PinnedPool {device}, closed>"
    gc.collect()
    numpy.testing.assert_array_equal(view, values)
    pool.close()
    for use in (lambda: pool.empty(3), lambda: pool.record(view), pool.trim, pool.statistics):
        refused(ValueError, r"this kiln\.PinnedPool is closed", use)


def test_views_are_recorded(pool: kiln.PinnedPool, device: str) -> None:
    tensor = pool.empty((64, 64))
    stream = kiln.Stream(device)
    for array in (tensor, tensor.numpy(), tensor.numpy()[3:, ::-1], numpy.empty(0), tensor.numpy()[:0]):
        pool.record(array, stream)
    others = [kiln.PinnedPool(device).empty(4096), numpy.empty(4096)]
    for other in others:
        refused(ValueError, "not in memory of this pool", lambda other=other: pool.record(other))
    for _ in range(100):  # blocks come and go; only those that are held count
        pool.record(pool.empty(4096 * 3, "u8"))
        pool.trim()


def test_copies_there_and_back(pool: kiln.PinnedPool, device: str, random: Random) -> None:
    values = normal(random, 1000)
    on_device, back = kiln.empty(1000, "f32", device), pool.empty(1000)
    stream = kiln.Stream(device)
    done = kiln.copy_async(on_device, pinned(pool, values), stream)
    assert isinstance(done, kiln.Event) and done.device == device
    kiln.copy_async(back, on_device, stream).synchronize()
    numpy.testing.assert_array_equal(back.numpy(), values)
    assert done.is_done()
    numpy.testing.assert_array_equal(on_device.numpy(), values)
    if device == "cpu":
        target = numpy.zeros(1000, numpy.float32)
        kiln.copy_async(target, values)
        numpy.testing.assert_array_equal(target, values)


def test_arrays_are_held_while_they_are_copied(gpu: str) -> None:
    pool = kiln.PinnedPool(gpu)
    on_device = kiln.empty(64 << 20, "u8", gpu)
    stream = kiln.Stream(gpu)
    for value in range(8):
        source = pool.empty(64 << 20, "u8").numpy()
        source[...] = value
        gone = weakref.ref(source)
        done = kiln.copy_async(on_device, source, stream)
        del source
        if not done.is_done():
            assert gone() is not None
        stream.synchronize()
        assert gone() is None
        assert (on_device.numpy() == value).all()


def test_copies_are_recorded(pool: kiln.PinnedPool, device: str, random: Random) -> None:
    values = normal(random, 3, 50)
    source, back = pinned(pool, values), pinned(pool, numpy.zeros_like(values))
    on_device, stream = kiln.empty(values.shape, "f32", device), kiln.Stream(device)
    with kiln.capture(stream) as graph:
        kiln.copy_async(on_device, source, stream)
        kiln.swap_blocks(back, on_device, [(0, 2)], stream)
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is not None, "the graph reads it"
    graph.launch(stream)
    stream.synchronize()
    numpy.testing.assert_array_equal(back, [numpy.zeros(50), numpy.zeros(50), values[0]])


@pytest.mark.parametrize("method", ["automatic", "kernel", "copy_engine"])
@pytest.mark.parametrize("as_pairs", [list, numpy.array, lambda pairs: numpy.array(pairs, numpy.int32)])
def test_blocks_are_swapped(
    pool: kiln.PinnedPool, device: str, random: Random, method: str, as_pairs: Callable[[Any], Any]
) -> None:
    values = normal(random, 8, 16, 4)
    blocks = kiln.to_device(numpy.zeros_like(values), device)
    kiln.swap_blocks(blocks, pinned(pool, values), as_pairs([(0, 3), (1, 4), (7, 0), (-1, 2), (2, -1)]), method=method)
    kiln.synchronize()
    expected = numpy.zeros_like(values)
    expected[[3, 4, 0]] = values[[0, 1, 7]]
    numpy.testing.assert_array_equal(blocks.numpy(), expected)
    kiln.swap_blocks(blocks, pinned(pool, values), [], kiln.Stream(device))
    numpy.testing.assert_array_equal(blocks.numpy(), expected)


def test_a_packed_gather(device: str, random: Random) -> None:
    source = random.integers(0, 256, (5000, 656), numpy.uint8)
    pairs = numpy.stack([random.permutation(5000)[:600], random.permutation(600)], axis=1).reshape(3, 200, 2)
    expected = numpy.zeros((600, 656), numpy.uint8)
    expected[pairs[..., 1]] = source[pairs[..., 0]]
    with kiln.PackedGather(device, chunk_bytes=100 * 656, depth=2) as gather:
        for indices in (pairs, pairs.astype(numpy.int32)):
            target = kiln.to_device(numpy.zeros_like(expected), device)
            assert gather(target, source, indices) is target
            kiln.synchronize()
            numpy.testing.assert_array_equal(target.numpy(), expected)
        pairs[1, 2, 0] = 5000
        refused(ValueError, r"'indices'\[1, 2, 0\] is 5000", lambda: gather(target, source, pairs))
    refused(ValueError, "PackedGather is closed", lambda: gather(target, source, pairs))


class Layers:
    """Layers whose result is their input twice, and another that is both loaded and stored."""

    def __init__(self, pool: kiln.PinnedPool, random: Random, count: int = 7) -> None:
        self.values = normal(random, count, 300)
        self.loads, self.kept = pinned(pool, self.values), pinned(pool, self.values)
        self.stores = pinned(pool, numpy.zeros_like(self.values))
        self.chunks = [
            [load, (store, "store"), (kept, "load_and_store")]
            for load, store, kept in zip(self.loads, self.stores, self.kept)
        ]
        self.seen: list[int] = []

    def compute(self, chunk: int, tensors: list[kiln.Tensor], stream: kiln.Stream) -> None:
        self.seen.append(chunk)
        load, store, kept = tensors
        assert load.device == stream.device
        kiln.ops.add(load, load, out=store)  # on the pipeline's stream
        kiln.ops.neg(kept, out=kept, stream=stream)

    def check(self) -> None:
        numpy.testing.assert_array_equal(self.stores, 2 * self.values)
        numpy.testing.assert_array_equal(self.kept, -self.values)
        assert self.seen == list(range(len(self.values)))


@pytest.mark.parametrize("depth", [1, 2, 3, 9])
def test_a_pipeline(pool: kiln.PinnedPool, device: str, random: Random, depth: int) -> None:
    layers = Layers(pool, random)
    stream = kiln.Stream(device)
    with kiln.OffloadPipeline(device, depth) as pipeline:
        assert (pipeline.device, pipeline.depth) == (device, depth)
        pipeline.run(layers.chunks, layers.compute, stream)
        stream.synchronize()
        pipeline.run([], layers.compute)
    layers.check()
    refused(ValueError, "OffloadPipeline is closed", lambda: pipeline.run([], layers.compute))


def test_when_the_stages_of_a_pipeline_ran(pool: kiln.PinnedPool, device: str, random: Random) -> None:
    layers = Layers(pool, random)
    stream = kiln.Stream(device)
    refused(TypeError, "timed='no'; expected True or False", lambda: kiln.OffloadPipeline(device, timed="no"))
    with kiln.OffloadPipeline(device, 2, timed=True) as pipeline:
        assert pipeline.timed and pipeline.spans() == []
        for count in (7, 3):  # the last run's alone
            pipeline.run(layers.chunks[:count], layers.compute, stream)
            spans = {(stage, chunk): (start, stop) for stage, chunk, start, stop in pipeline.spans()}
            assert set(spans) == {(stage, chunk) for stage in ("load", "compute", "store") for chunk in range(count)}
            for chunk in range(count):
                marks = [mark for stage in ("load", "compute", "store") for mark in spans[stage, chunk]]
                assert marks[0] >= 0, chunk
                assert all(earlier <= later + 1 for earlier, later in itertools.pairwise(marks)), marks  # us
    refused(ValueError, "OffloadPipeline is closed", pipeline.spans)
    untimed = kiln.OffloadPipeline(device)
    assert not untimed.timed
    refused(ValueError, "notes no times; make it with timed=True", untimed.spans)


def test_tensors_of_a_pipeline_may_be_kept(pool: kiln.PinnedPool, device: str) -> None:
    kept: list[kiln.Tensor] = []
    pipeline = kiln.OffloadPipeline(device, 1)
    for size in (100, 200_000):  # the second run needs larger buffers
        pipeline.run(
            [[pinned(pool, numpy.full(size, size, numpy.float32))]], lambda _, tensors, __: kept.extend(tensors)
        )
        kiln.synchronize()
    del pipeline
    gc.collect()
    assert [tensor.numpy()[-1] for tensor in kept] == [100, 200_000]


def test_what_compute_raises_comes_out(pool: kiln.PinnedPool, device: str, random: Random) -> None:
    layers = Layers(pool, random)
    pipeline = kiln.OffloadPipeline(device)

    def fails(chunk: int, tensors: list[kiln.Tensor], stream: kiln.Stream) -> None:
        if chunk == 2:
            refused(ValueError, "callback of its own", lambda: pipeline.run([], layers.compute))
            raise ZeroDivisionError
        layers.compute(chunk, tensors, stream)

    with pytest.raises(ZeroDivisionError):
        pipeline.run(layers.chunks, fails)
    numpy.testing.assert_array_equal(layers.stores[:2], 2 * layers.values[:2])
    layers.kept[...], layers.seen[:] = layers.values, []
    pipeline.run(layers.chunks, layers.compute)
    kiln.synchronize()
    layers.check()


def test_one_thread_at_a_time_and_others_go_on(pool: kiln.PinnedPool, device: str) -> None:
    pipeline = kiln.OffloadPipeline(device)
    entered, leave = threading.Event(), threading.Event()

    def waits(*_: Any) -> None:
        entered.set()
        assert leave.wait(30)

    thread = threading.Thread(target=lambda: pipeline.run([[pool.empty(3)]], waits))
    thread.start()
    assert entered.wait(30)
    refused(ValueError, "at work in another thread", lambda: pipeline.run([], waits))
    pipeline.close()  # what is under way goes on
    leave.set()
    thread.join()


def test_a_copy_lets_other_threads_run() -> None:
    source, counted = numpy.ones(1 << 28, numpy.uint8), [0]
    target, stop = numpy.zeros_like(source), threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    time.sleep(0.05)
    before = counted[0]
    kiln.copy_async(target, source)
    during = counted[0] - before
    stop.set()
    thread.join()
    assert during > 0


def test_memory_usage(device: str) -> None:
    usage = kiln.memory_usage(device)
    assert usage.device == device
    assert 0 < usage.used_bytes <= usage.total_bytes and usage.free_bytes <= usage.total_bytes
    assert usage.available_bytes == usage.free_bytes + usage.pool_reserved_bytes - usage.pool_used_bytes
    assert set(usage.to_dict()) == {name for name in dir(usage) if not name.startswith("_") and name != "to_dict"}
    assert "in use by" in str(usage) and kiln.memory_usage().device == kiln.Stream().device


def test_registered_memory(gpu: str, random: Random) -> None:
    values = normal(random, 100_000)
    on_device = kiln.empty(values.shape, "f32", gpu)
    with kiln.register_host_memory(values) as registration:
        assert registration.array is values and registration.nbytes == values.nbytes
        refused(ValueError, "already", lambda: kiln.register_host_memory(values))
        kiln.copy_async(on_device, values)
        kiln.swap_blocks(on_device, values, [(0, 1)])
    assert registration.closed
    refused(ValueError, "HostRegistration is closed", lambda: registration.array)
    refused(ValueError, "not in page-locked memory", lambda: kiln.swap_blocks(on_device, values, [(0, 1)]))
    numpy.testing.assert_array_equal(on_device.numpy()[2:], values[2:])
