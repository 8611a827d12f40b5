"""Copies of tensors between host and device, from memory of several kinds, waited for and not."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln

Array = np.ndarray[Any, Any]
OLD, NEW = 1, 2  # what bytes say of when they were read


class Side:
    """Arrays on the host of one kind of memory, and what is needed to make them anew."""

    def __init__(self, options: argparse.Namespace, memory: str) -> None:
        self.options, self.memory = options, memory
        self.pool = kiln.PinnedPool(options.device)
        self.kept = [] if memory == "pinned each time" else [self.make() for _ in range(options.tensors)]

    def make(self) -> Array:
        if self.memory == "pageable":
            return np.ones(self.options.shape, np.float16)
        array = self.pool.empty(self.options.shape, "f16").numpy()
        array[...] = 1
        return array

    def array(self, index: int) -> Array:
        """The host's array of a copy; where it is made for it, without what the pool kept of the last one."""
        if self.kept:
            return self.kept[index]
        self.pool.trim()
        return self.pool.empty(self.options.shape, "f16").numpy()


def timed_copies(
    options: argparse.Namespace, side: Side, on_device: kiln.Tensor, stream: kiln.Stream, to_device: bool
) -> list[float]:
    """Microseconds of each tensor by the host's clock, what belongs to its memory included."""
    times = []
    for index in range(options.tensors):
        started = time.perf_counter()
        array = side.array(index)
        if to_device:
            kiln.copy_async(on_device, array, stream).synchronize()
        else:
            kiln.copy_async(array, on_device, stream).synchronize()
        times.append((time.perf_counter() - started) * 1e6)
        del array  # a pool that is to make each anew gets it back first
    return times


def tensor_copies(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each direction from and to pageable memory, pinned memory made for each copy, and pinned memory that is there."""
    stream = kiln.Stream(options.device)
    on_device = kiln.empty(options.shape, "f16", options.device, stream=stream)
    kiln.copy_async(on_device, np.ones(options.shape, np.float16), stream).synchronize()
    rows = []
    for memory in ("pageable", "pinned each time", "preallocated"):
        side = Side(options, memory)
        for direction, to_device in (("to the device", True), ("to the host", False)):
            rounds = [
                timed_copies(options, side, on_device, stream, to_device) for _ in range(options.warmup + options.iters)
            ]
            times = [us for taken in rounds[options.warmup :] for us in taken]
            mean = statistics.mean(times)
            rows.append(
                {
                    "direction": direction,
                    "memory": memory,
                    "mean_us": mean,
                    "deviation_us": statistics.pstdev(times),
                    "gb_s": options.tensor_bytes / mean / 1e3,
                }
            )
    return rows


def small_copies(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The matrix of pinned and non-blocking: what a copy takes, and what of it the host spends enqueuing."""
    device, size = options.device, options.small_bytes
    stream = kiln.Stream(device)
    on_device = kiln.empty(size, "u8", device, stream=stream)
    pool = kiln.PinnedPool(device)
    arrays = {"pageable": np.zeros(size, np.uint8), "pinned": pool.empty(size, "u8").numpy()}
    rows = []
    for memory, array in arrays.items():
        for waits in ("after each", "at the end"):
            whole, host = [], []
            for turn in range(-options.warmup, options.iters):
                started = time.perf_counter()
                for _ in range(options.small):
                    done = kiln.copy_async(on_device, array, stream)
                    if waits == "after each":
                        done.synchronize()
                enqueued = time.perf_counter()
                stream.synchronize()
                if turn >= 0:
                    whole.append((time.perf_counter() - started) * 1e6 / options.small)
                    host.append((enqueued - started) * 1e6 / options.small)
            rows.append(
                {
                    "memory": memory,
                    "waits": waits,
                    "us_a_copy": statistics.median(whole),
                    "host_us_a_copy": statistics.median(host),
                }
            )
    return rows


def mistakes(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What goes wrong without a wait, found out by leaving it out."""
    device, size = options.device, max(options.tensor_bytes, 1 << 20)
    pool, stream = kiln.PinnedPool(device), kiln.Stream(device)
    rows = []
    makes: dict[str, Callable[[], Array]] = {
        "pageable": lambda: np.empty(size, np.uint8),
        "pinned": lambda: pool.empty(size, "u8").numpy(),
    }
    for memory, make in makes.items():
        host, on_device = make(), kiln.empty(size, "u8", device, stream=stream)
        tail = host[-(size // 8) :]  # what the copy comes to last
        host[...] = OLD
        stream.synchronize()
        kiln.copy_async(on_device, host, stream)
        tail[...] = NEW  # no wait: the copy may not have read it
        stream.synchronize()
        arrived = on_device.numpy()
        rows.append(row_of("to the device", memory, "the source is changed", int((arrived != OLD).sum())))
        host[...] = OLD
        kiln.copy_async(on_device, np.full(size, NEW, np.uint8), stream).synchronize()
        kiln.copy_async(host, on_device, stream)
        seen = tail.copy()  # no wait: the copy may not have written it
        stream.synchronize()
        rows.append(row_of("to the host", memory, "the destination is read", int((seen != NEW).sum())))
    return rows


def row_of(direction: str, memory: str, mistake: str, wrong: int) -> dict[str, Any]:
    return {
        "direction": direction,
        "memory": memory,
        "mistake": mistake,
        "wrong_bytes": wrong,
        "verdict": "wrong" if wrong else "right: the copy had been waited for by itself",
    }
