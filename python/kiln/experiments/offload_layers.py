"""Layers whose data lies on the host: loaded, computed and stored in sequence, on two streams, and by the pipeline."""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln

Span = tuple[str, float, float]  # stage, start and end in ms
Timelines = dict[str, list[Span]]


class Marks:
    """Timed events around stages, for a timeline; none are recorded while it is off."""

    def __init__(self, device: str, stream: kiln.Stream) -> None:
        self.device, self.is_on = device, False
        self.first = kiln.Event(device, timed=True)
        self.first.record(stream)
        self.pairs: list[tuple[str, kiln.Event, kiln.Event]] = []

    def around(self, stage: str, stream: kiln.Stream, work: Callable[[], object]) -> None:
        if not self.is_on:
            work()
            return
        start, stop = (kiln.Event(self.device, timed=True) for _ in range(2))
        start.record(stream)
        work()
        stop.record(stream)
        self.pairs.append((stage, start, stop))

    def spans(self) -> list[Span]:
        """Of what is done."""
        return [
            (stage, self.first.elapsed_us(start) / 1e3, self.first.elapsed_us(stop) / 1e3)
            for stage, start, stop in self.pairs
        ]


class Slot:
    """Memory on the device for one layer at a time, and the matrix it is multiplied with, of one stream."""

    def __init__(self, shape: tuple[int, int], matrix: Any, device: str, stream: kiln.Stream) -> None:
        self.stream = stream
        self.source, self.target, self.between = (kiln.empty(shape, "f16", device, stream=stream) for _ in range(3))
        self.matrix = kiln.empty(matrix.shape, "f16", device, stream=stream)
        kiln.copy_async(self.matrix, matrix, stream).synchronize()


class Layers:
    """The layers and the ways to run them.

    What is computed of a layer is a chain of products with one matrix, or where a product takes too long for the share
    of a load's time, passes over it.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.device, self.share = options.device, options.share
        width = options.shape[-1]
        self.shape = (int(np.prod(options.shape[:-1])), width)
        self.pool = kiln.PinnedPool(self.device)
        self.stream = kiln.Stream(self.device)
        random = np.random.default_rng(7)
        block = random.standard_normal(self.shape, dtype=np.float32).astype(np.float16)
        self.loads = [self.pinned(np.roll(block, i)) for i in range(options.layers)]
        self.stores = [self.pinned(np.zeros_like(block)) for _ in range(options.layers)]
        matrix = (random.standard_normal((width, width), dtype=np.float32) / width**0.5).astype(np.float16)
        # Each stream has memory of its own: calls that read a tensor of another stream's wait for their work. The first is
        # of what runs on one stream, the others of the two in turns.
        self.two = [kiln.Stream(self.device) for _ in range(2)]
        self.slots = [Slot(self.shape, matrix, self.device, stream) for stream in (self.stream, *self.two)]
        self.steps, self.is_product = 1, True
        self.marks = Marks(self.device, self.stream)

    def pinned(self, values: Any) -> Any:
        array = self.pool.empty(values.shape, values.dtype).numpy()
        array[...] = values
        return array

    def compute(self, source: kiln.Tensor, target: kiln.Tensor, slot: Slot) -> None:
        """Steps go to and fro between two places, so that the last lands in `target`."""
        places = [target, slot.between]
        for i in range(self.steps):
            place = places[(self.steps - 1 - i) % 2]
            if self.is_product:
                kiln.ops.matmul(source, slot.matrix, out=place, stream=slot.stream)
            else:
                kiln.ops.neg(source, out=place, stream=slot.stream)
            source = place

    def one(self, index: int, slot: Slot) -> None:
        load, store, stream = self.loads[index], self.stores[index], slot.stream
        self.marks.around("load", stream, lambda: kiln.copy_async(slot.source, load, stream))
        self.marks.around("compute", stream, lambda: self.compute(slot.source, slot.target, slot))
        self.marks.around("store", stream, lambda: kiln.copy_async(store, slot.target, stream))

    def sequential(self) -> None:
        for index in range(len(self.loads)):
            self.one(index, self.slots[0])

    def alternating(self) -> None:
        """Each of two streams has its own memory, and need not wait for the other."""
        for stream in self.two:
            stream.wait_stream(self.stream)
        for index in range(len(self.loads)):
            self.one(index, self.slots[1 + index % 2])
        for stream in self.two:
            self.stream.wait_stream(stream)

    def pipelined(self, pipeline: kiln.OffloadPipeline) -> None:
        def layer(_: int, tensors: list[kiln.Tensor], stream: kiln.Stream) -> None:
            source, target = tensors
            self.compute(source, target, self.slots[0])

        pipeline.run([[load, (store, "store")] for load, store in zip(self.loads, self.stores)], layer, self.stream)

    def load_all(self) -> None:
        for load in self.loads:
            kiln.copy_async(self.slots[0].source, load, self.stream)

    def store_all(self) -> None:
        for store in self.stores:
            kiln.copy_async(store, self.slots[0].target, self.stream)

    def compute_all(self) -> None:
        for _ in self.loads:
            self.compute(self.slots[0].source, self.slots[0].target, self.slots[0])

    def wall_ms(self, call: Callable[[], None]) -> float:
        self.stream.synchronize()
        started = time.perf_counter()
        call()
        self.stream.synchronize()
        return (time.perf_counter() - started) * 1e3

    def calibrate(self) -> str:
        """As many steps as take the share of a load's time; what they are, in words."""
        wanted_ms = self.share * self.best_ms(self.load_all)
        step_ms = self.best_ms(self.compute_all)
        if step_ms > 1.5 * wanted_ms:
            self.is_product = False
            step_ms = self.best_ms(self.compute_all)
        self.steps = max(1, round(wanted_ms / step_ms))
        kind = ("product", "products") if self.is_product else ("pass", "passes")
        return (
            f"{self.steps} {kind[self.steps > 1]}, {self.steps * step_ms / wanted_ms * self.share:.2f} of a load's time"
        )

    def best_ms(self, call: Callable[[], None]) -> float:
        """Of a few, the first of which may compile."""
        return min(self.wall_ms(call) for _ in range(4))

    def clear(self) -> None:
        for store in self.stores:
            store[...] = 0


def layer_times(options: argparse.Namespace) -> tuple[list[dict[str, Any]], Timelines, str]:
    """Times of every schedule, whose results are compared with the sequential one's; timelines; what was computed."""
    layers = Layers(options)
    compute = layers.calibrate()
    pipelines = {depth: kiln.OffloadPipeline(options.device, depth) for depth in options.depths}
    ways: dict[str, Callable[[], None]] = {
        "sequential": layers.sequential,
        "two alternating streams": layers.alternating,
        **{f"pipeline, depth {depth}": functools.partial(layers.pipelined, one) for depth, one in pipelines.items()},
        "loads alone": layers.load_all,
        "compute alone": layers.compute_all,
        "stores alone": layers.store_all,
    }
    layers.wall_ms(layers.sequential)
    expected = [store.copy() for store in layers.stores]
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(-options.warmup, options.iters):
        for name, call in ways.items():
            layers.clear()
            taken = layers.wall_ms(call)
            if "alone" not in name and not all(map(np.array_equal, layers.stores, expected)):
                raise kiln.InternalError(f"{name}: results differ from the sequential ones")
            if turn >= 0:
                times[name].append(taken)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    slowest = max(ms for name, ms in medians.items() if "alone" in name)
    rows: list[dict[str, Any]] = [
        {
            "schedule": name,
            "ms": medians[name],
            "deviation_ms": statistics.pstdev(taken),
            "times_sequential": medians["sequential"] / medians[name],
            "of_slowest_stage": slowest / medians[name],
        }
        for name, taken in times.items()
    ]
    timelines = {name: timeline(layers, ways[name]) for name in ("sequential", "two alternating streams")}
    for depth in options.depths:
        timelines[f"pipeline, depth {depth}"] = pipeline_timeline(layers, depth)
    for row in rows:
        spans = timelines.get(row["schedule"])
        row["copies_beside_compute"] = None if spans is None else share_beside_copies(spans)
    return rows, timelines, compute


def share_beside_copies(spans: list[Span]) -> float:
    """Of the time in which something is computed, that in which a load or a store runs as well."""
    times = sorted({time for _, start, stop in spans for time in (start, stop)})
    computed = overlapped = 0.0
    for start, stop in zip(times, times[1:]):
        stages = {stage for stage, first, last in spans if first <= start and stop <= last}
        if "compute" in stages:
            computed += stop - start
            overlapped += (stop - start) * (len(stages) > 1)
    return overlapped / computed if computed else 0.0


def pipeline_timeline(layers: Layers, depth: int) -> list[Span]:
    """When each stage of a pipeline ran, copies on its own streams too; behind a round that makes its memory."""
    with kiln.OffloadPipeline(layers.device, depth, timed=True) as pipeline:
        for _ in range(2):
            layers.wall_ms(lambda: layers.pipelined(pipeline))
        return [(stage, start_us / 1e3, end_us / 1e3) for stage, _, start_us, end_us in pipeline.spans()]


def timeline(layers: Layers, call: Callable[[], None]) -> list[Span]:
    """When each stage ran of what enqueues them on the experiment's own streams."""
    layers.marks = Marks(layers.device, layers.stream)
    layers.marks.is_on = True
    layers.wall_ms(call)
    spans = layers.marks.spans()
    layers.marks.is_on = False
    return spans
