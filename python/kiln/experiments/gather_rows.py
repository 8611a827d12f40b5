"""The rows of a gather: a pool on the host, where they go, and every way to bring them there."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
from kiln.experiments.gather_kernels import series_op
from kiln.experiments.managed import ManagedBytes

LINE_BYTES = 128
POISON = 0xA5
FLUSH_BYTES = 256 << 20  # more than a GPU's cache holds

#: The published kernels by name, each with its width.
SERIES = {
    "bytewise": ("thread_per_row", 1),
    "16 bytes a thread": ("thread_per_row", 16),
    "bytewise, warp per row": ("warp_per_row", 1),
    "warp per row": ("warp_per_row", 16),
    "2 rows in flight": ("rows_in_flight", 2),
    "4 rows in flight": ("rows_in_flight", 4),
}
LIMITED = (*SERIES, "Kiln")  #: what --limit names: whatever can run on any number of multiprocessors
MANAGED = "managed memory, warp per row, 16 SMs"

Way = Callable[[], object] | str  # or why it cannot be had


class Rows:
    """`bs` x `topk` distinct rows of a pool of `slots`, to rows of the destination in random order."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, options.device
        self.pairs = options.bs * options.topk
        self.bytes = self.pairs * options.row_bytes
        self.sms_of: dict[str, int] = {}  #: by variant
        self.kernel_of: dict[str, str] = {}  #: likewise, as a profiler names it
        random = np.random.default_rng(7)
        self.pool = kiln.PinnedPool(self.device)
        self.host = self.pool.empty((options.slots, options.row_bytes), "u8").numpy()
        self.host[...] = random.integers(0, 256, self.host.shape, np.uint8)
        source = random.permutation(options.slots)[: self.pairs].astype(np.int32)
        target = random.permutation(self.pairs).astype(np.int32)
        self.source = source
        self.expected = np.empty((self.pairs, options.row_bytes), np.uint8)
        self.expected[target] = self.host[source]
        pairs = np.stack([source, target], axis=1)
        self.host_indices = pairs.reshape(options.bs, options.topk, 2)
        self.flat = kiln.to_device(pairs, self.device)
        self.indices = kiln.to_device(self.host_indices, self.device)
        self.dst = kiln.empty((self.pairs, options.row_bytes), "u8", self.device)
        self.poison = kiln.to_device(np.full((self.pairs, options.row_bytes), POISON, np.uint8), self.device)
        self.flushed = kiln.empty(FLUSH_BYTES, "u8", self.device) if self.device != "cpu" else None
        self.clock = [kiln.Event(self.device, timed=True) for _ in range(2)]

    def lines_per_row(self) -> float:
        """How many lines of 128 bytes a row touches: the bus is asked line by line."""
        first = self.source.astype(np.int64) * self.options.row_bytes
        return float(((first + self.options.row_bytes - 1) // LINE_BYTES - first // LINE_BYTES + 1).mean())

    def arrive(self, call: Callable[[], object]) -> bool:
        """Whether every row is where it belongs after the call. Of the bounds, which move other bytes, that it ran."""
        kiln.copy_async(self.dst, self.poison).synchronize()
        call()
        kiln.synchronize()
        arrived = self.dst.numpy()
        if isinstance(call, Bound):
            return bool((arrived == self.host[: self.pairs]).all())
        return bool(np.array_equal(arrived, self.expected))

    def timed_us(self, call: Callable[[], object]) -> float:
        """On the device, whose cache holds nothing of the rows."""
        if isinstance(call, Prepared):
            call.prepare()
        if self.flushed is not None:
            kiln.ops.bitwise_not(self.flushed, out=self.flushed)
        start, stop = self.clock
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return start.elapsed_us(stop)

    def variants(self) -> dict[str, Way]:
        """The ways, in the order in which they were found."""
        kiln_op = kiln.resolve("sparse_kv_gather", self.dst, self.host, self.indices)
        ways: dict[str, Way] = {}
        if self.device == "cpu":
            ways["NumPy"] = self.by_numpy
        else:
            ways |= self.series()
        self.kernel_of["Kiln"] = kiln_op.report.kernels[-1].name.rpartition("<")[0].rpartition("::")[2]
        ways["Kiln"] = lambda: kiln_op(self.dst, self.host, self.indices)
        if "Kiln" in self.options.limit:
            ways |= {self.on_sms("Kiln", sms): self.limited(sms) for sms in self.options.sms}
        gather = kiln.PackedGather(self.device)
        ways["Kiln, packed by CPU threads"] = lambda: gather(self.dst, self.host, self.host_indices)
        ways["copy of as many bytes"] = Bound(lambda: kiln.copy_async(self.dst, self.host[: self.pairs]))
        return ways

    def by_numpy(self) -> None:
        self.dst.numpy()[self.host_indices[..., 1].ravel()] = self.host[self.source]

    def on_sms(self, name: str, sms: int) -> str:
        """The name of a variant on so many multiprocessors, which its row says too."""
        limited = f"{name}, {sms} SMs"
        self.sms_of[limited] = sms
        self.kernel_of[limited] = SERIES[name][0] if name in SERIES else self.kernel_of[name]
        return limited

    def limited(self, sms: int) -> Way:
        """Kiln's op on so many multiprocessors."""
        resolved = kiln.resolve("sparse_kv_gather", self.dst, self.host, self.indices, max_sms=sms)
        return lambda: resolved(self.dst, self.host, self.indices)

    def series(self) -> dict[str, Way]:
        """The published steps, a warp per row, rows in flight and what --limit names on fewer multiprocessors, and
        managed memory."""
        processors = next(row["processors"] for row in kiln.devices() if row["device"] == self.device)
        ways: dict[str, Way] = {}

        def add(name: str, kernel: str, width: int, sms: int, source: Any = None) -> None:
            ways[name] = self.way(kernel, width, sms, self.host if source is None else source)
            self.sms_of[name], self.kernel_of[name] = sms, kernel

        for name in ("bytewise", "16 bytes a thread", "bytewise, warp per row"):
            add(name, *SERIES[name], processors)
        shown = {name: self.options.sms for name in self.options.limit if name in SERIES}
        shown["warp per row"] = [*self.options.sms, 16]
        shown["4 rows in flight"] = [*shown.get("4 rows in flight", []), 4, 16, processors]
        for name in SERIES:
            for sms in dict.fromkeys(shown.get(name, [])):
                add(self.on_sms(name, sms), *SERIES[name], sms)
        try:
            managed = ManagedBytes((self.options.slots, self.options.row_bytes), self.device)
            managed.fill(self.host)
            add(MANAGED, "warp_per_row", 16, 16, managed)
            call = ways[MANAGED]
            if not isinstance(call, str):
                ways[MANAGED] = Prepared(call, lambda: managed.fill(self.host))
        except (RuntimeError, OSError, kiln.Error) as error:
            ways[MANAGED] = str(error)
        read = self.way("contiguous_read", 8, 4, self.host)
        ways["contiguous read, 4 SMs"] = read if isinstance(read, str) else Bound(read)
        self.sms_of["contiguous read, 4 SMs"] = 4
        return ways

    def way(self, kernel: str, width: int, sms: int, source: Any) -> Way:
        try:
            resolved = kiln.resolve(series_op(kernel), self.dst, source, self.flat, sms=sms, width=width)
        except kiln.Error as error:
            return str(error)
        return lambda: resolved(self.dst, source, self.flat)


class Bound:
    """What moves as many bytes as the rows and is no gather."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def __call__(self) -> object:
        return self.call()


class Prepared:
    """A gather that something must be done for, which is not timed: managed memory is to lie on the host again."""

    def __init__(self, call: Callable[[], object], prepare: Callable[[], object]) -> None:
        self.call, self.prepare = call, prepare

    def __call__(self) -> object:
        return self.call()
