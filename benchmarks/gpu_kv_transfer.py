"""Whole tensors between host and GPU, and layers whose data lives on the host.

copies: 60 tensors of 1x16800x1536 f16 each way, from and to pageable memory, pinned memory that is allocated for each, and pinned memory that is there; GB/s by the
host's clock, allocation included where it belongs to the way.

offload: 30 layers, each of which loads one such tensor, computes (a chain of matrix products, as long as to take a given share of a load's time) and stores one.
Everything on one stream, one after the other, beside kiln::OffloadPipeline, and beside the time of the slowest stage alone, which no schedule can beat. The two directions
share the bus: what both take at once is measured too.

Every byte that arrives is compared. Prints one JSON object; a part that fails says so in its place and the other still runs.
"""

import argparse
import contextlib
import ctypes
import pathlib
import random
import statistics
import sys
import time

import result_file
import torch
from host_pool import HostPool
from kiln_library import Kiln, OffloadPipeline, PinnedPool
from report import Report, say

SHAPE = (1, 16800, 1536)
TENSORS, LAYERS = 60, 30
PAUSE_MS = 0.02  # between two kernels of a layer: less than this
BYTES = 2 * SHAPE[1] * SHAPE[2]


def halves(address, on_cuda):
    """A f16 tensor of SHAPE over memory that something else owns."""
    if not on_cuda:
        return torch.frombuffer((ctypes.c_char * BYTES).from_address(address), dtype=torch.float16).view(SHAPE)
    memory = type(
        "Memory",
        (),
        {"__cuda_array_interface__": {"shape": SHAPE, "typestr": "<f2", "data": (address, False), "version": 3}},
    )
    return torch.as_tensor(memory(), device="cuda")


def pinned_tensors(count):
    pool = HostPool(count * BYTES)
    return pool, list(pool.tensor.view(torch.float16).view(count, *SHAPE).unbind())


def wall_us(call):
    torch.cuda.synchronize()
    started = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e6


def spread(samples_us, moved_bytes):
    median = statistics.median(samples_us)
    return {
        "median_us": median,
        "min_us": min(samples_us),
        "max_us": max(samples_us),
        "samples": len(samples_us),
        "gb_s": moved_bytes / median / 1e3,
    }


class Copies:
    """The ways to move TENSORS tensors. Each returns the tensors that it wrote."""

    def __init__(self, kiln):
        self.kiln, self.pool, self.blocks = kiln, PinnedPool(kiln), []
        self.truth = torch.randn((TENSORS, *SHAPE), device="cuda").half()
        self.device = [torch.empty(SHAPE, dtype=torch.float16, device="cuda") for _ in range(TENSORS)]
        self.pageable = [torch.empty(SHAPE, dtype=torch.float16) for _ in range(TENSORS)]
        self.region, self.pinned = pinned_tensors(TENSORS)

    def loads(self):
        """Ways to the GPU, and whether each starts with no pinned memory at hand."""
        for i in range(TENSORS):
            self.pageable[i].copy_(self.truth[i])
            self.pinned[i].copy_(self.truth[i])
        return {
            "pageable": (self.load_pageable, False),
            "pinned, allocated for each": (self.load_cached, True),
            "pinned, torch's cache of it": (self.load_cached, False),
            "pinned, kiln::PinnedPool": (self.load_pool, False),
            "pinned before": (self.load_pinned, False),
            "pinned before, kiln::copy": (self.load_kiln, False),
        }

    def stores(self):
        """Likewise, to the host."""
        return {
            "pageable": (self.store_pageable, False),
            "pinned, allocated for each": (self.store_cached, True),
            "pinned, kiln::PinnedPool, allocated for each": (self.store_pool, True),
            "pinned, torch's cache of it": (self.store_cached, False),
            "pinned, kiln::PinnedPool": (self.store_pool, False),
            "pinned before": (self.store_pinned, False),
            "pinned before, kiln::copy": (self.store_kiln, False),
        }

    def prepare(self, to_gpu, is_cold):
        """What is written does not hold the truth yet."""
        if to_gpu:
            for tensor in self.device:
                tensor.fill_(7)
        else:
            self.truth.neg_()
            for tensor, truth in zip(self.device, self.truth):
                tensor.copy_(truth)
        if is_cold:
            torch.cuda.synchronize()
            torch._C._host_emptyCache()
            self.pool = PinnedPool(self.kiln)

    def check(self, written, name):
        for tensor, truth in zip(written, self.truth, strict=True):
            if not torch.equal(tensor.cuda(), truth):
                raise AssertionError(f"{name}: bytes differ")
        for block in self.blocks:
            self.pool.release(block)
        self.blocks = []

    def load_pageable(self):
        for target, source in zip(self.device, self.pageable):
            target.copy_(source)
        return self.device

    def load_cached(self):
        held = []  # else a tensor would get the memory of the one before it
        for target, source in zip(self.device, self.pageable):
            held.append(source.pin_memory())
            target.copy_(held[-1], non_blocking=True)
        return self.device

    def load_pool(self):
        for target, source in zip(self.device, self.pageable):
            block, address = self.pool.empty(BYTES)
            staging = halves(address, on_cuda=False)
            staging.copy_(source)
            self.kiln.copy(target, staging)
            self.pool.release(block)
        return self.device

    def load_pinned(self):
        for target, source in zip(self.device, self.pinned):
            target.copy_(source, non_blocking=True)
        return self.device

    def load_kiln(self):
        for target, source in zip(self.device, self.pinned):
            self.kiln.copy(target, source)
        return self.device

    def store_pageable(self):
        for target, source in zip(self.pageable, self.device):
            target.copy_(source)
        return self.pageable

    def store_cached(self):
        return [
            torch.empty(SHAPE, dtype=torch.float16, pin_memory=True).copy_(source, non_blocking=True)
            for source in self.device
        ]

    def store_pool(self):
        made = []
        for source in self.device:
            block, address = self.pool.empty(BYTES)
            self.blocks.append(block)
            made.append(halves(address, on_cuda=False))
            self.kiln.copy(made[-1], source)
        return made

    def store_pinned(self):
        for target, source in zip(self.pinned, self.device):
            target.copy_(source, non_blocking=True)
        return self.pinned

    def store_kiln(self):
        for target, source in zip(self.pinned, self.device):
            self.kiln.copy(target, source)
        return self.pinned


def measure_ways(state, ways, to_gpu, rounds):
    """Microseconds per sample, by way. Cold ones take seconds, and would leave the caches cold for the others: last, and once."""
    times = {name: [] for name in ways}

    def sample(name, is_kept):
        call, is_cold = ways[name]
        state.prepare(to_gpu, is_cold)
        written = []
        taken = wall_us(lambda: written.extend(call()))
        state.check(written, name)
        if is_kept:
            times[name].append(taken)

    warm = [name for name, (_, is_cold) in ways.items() if not is_cold]
    for turn in range(rounds + 1):
        for name in random.sample(warm, len(warm)):
            sample(name, is_kept=turn > 0)
    for name in [name for name in ways if name not in warm]:
        sample(name, is_kept=True)
    return times


def copies(report, kiln, rounds):
    with report.section("copies") as rows:
        state = Copies(kiln)
        for direction, ways, to_gpu in (("to the GPU", state.loads, True), ("to the host", state.stores, False)):
            for name, samples in measure_ways(state, ways(), to_gpu, rounds).items():
                rows.append({"direction": direction, "way": name, **spread(samples, TENSORS * BYTES)})
                say(f"{direction:12} {name:46} {rows[-1]['gb_s']:7.2f} GB/s")
        state.region.close()


class Layers:
    """LAYERS layers on the host and what is computed of each: a chain of `products`, x to x w."""

    def __init__(self, kiln):
        self.region, tensors = pinned_tensors(2 * LAYERS)
        self.loads, self.stores = tensors[:LAYERS], tensors[LAYERS:]
        for layer in self.loads:
            layer.copy_(torch.randn(SHAPE, device="cuda").half())
        self.weight = (torch.randn((SHAPE[2], SHAPE[2]), device="cuda") / SHAPE[2] ** 0.5).half()
        self.between = [torch.empty(SHAPE[1:], dtype=torch.float16, device="cuda") for _ in range(2)]
        self.on_gpu = [torch.empty(SHAPE[1:], dtype=torch.float16, device="cuda") for _ in range(2)]
        self.views, self.products = {}, 1
        rows = [tensor.view(torch.uint8).view(-1, 4096) for tensor in (self.on_gpu[0], *self.loads)]
        pairs = torch.zeros((len(rows[0]), 2), dtype=torch.int32, device="cuda")
        self.reads = [
            kiln.resolve("benchmark_kv_series", [], [rows[0], load, pairs], None, "STEP=4 SMS=4 ROWS=8")
            for load in rows[1:]
        ]

    def compute(self, source, target):
        for i in range(self.products):
            result = target if i == self.products - 1 else self.between[i % 2]
            torch.mm(source, self.weight, out=result)
            source = result

    def load_all(self):
        for layer in self.loads:
            self.on_gpu[0].copy_(layer[0], non_blocking=True)

    def store_all(self):
        for layer in self.stores:
            layer[0].copy_(self.on_gpu[1], non_blocking=True)

    def compute_all(self):
        for _ in range(LAYERS):
            self.compute(*self.on_gpu)

    def load_by_kernel(self):
        for call in self.reads:
            call()

    def both_ways(self):
        side = torch.cuda.Stream()
        self.load_all()
        with torch.cuda.stream(side):
            self.store_all()

    def both_ways_with_kernel(self):
        side = torch.cuda.Stream()
        self.load_by_kernel()
        with torch.cuda.stream(side):
            self.store_all()

    def sequential(self):
        for load, store in zip(self.loads, self.stores):
            self.on_gpu[0].copy_(load[0], non_blocking=True)
            self.compute(*self.on_gpu)
            store[0].copy_(self.on_gpu[1], non_blocking=True)

    def callback(self, _, source, target, stream):
        for address in (source, target):
            if address not in self.views:
                self.views[address] = halves(address, on_cuda=True)[0]
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)) if stream else contextlib.nullcontext():
            self.compute(self.views[source], self.views[target])


def timeline(call):
    """What the GPU did in `call`: (kind, start, end) in milliseconds, by torch's profiler; nothing where it cannot."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    events = []
    for event in profiler.profiler.kineto_results.events():
        name = event.name()
        kind = (
            "load"
            if "HtoD" in name
            else "store"
            if "DtoH" in name
            else None
            if name.startswith(("Mem", "Context", "Stream", "Event"))
            else "compute"
        )
        if kind and event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0:
            events.append([kind, event.start_ns() / 1e6, (event.start_ns() + event.duration_ns()) / 1e6])
    spans, last = [], {}
    for kind, start, stop in sorted(events, key=lambda event: event[1]):
        if kind == "compute" and kind in last and start - last[kind][2] < PAUSE_MS:
            last[kind][2] = stop
        else:
            last[kind] = [kind, start, stop]
            spans.append(last[kind])
    first = spans[0][1] if spans else 0
    return [(kind, round(start - first, 4), round(stop - first, 4)) for kind, start, stop in spans]


def offload(report, kiln, rounds, shares, depths):
    with report.section("offload") as rows:
        layers = Layers(kiln)
        pipelines = {depth: OffloadPipeline(kiln, depth) for depth in depths}
        wall_us(layers.load_all)
        load_us = statistics.median(wall_us(layers.load_all) for _ in range(rounds))
        wall_us(layers.compute_all)
        product_us = statistics.median(wall_us(layers.compute_all) for _ in range(rounds))
        for share in shares:
            layers.products = max(1, round(share * load_us / product_us))
            stages = {
                "load": layers.load_all,
                "compute": layers.compute_all,
                "store": layers.store_all,
                "load and store at once": layers.both_ways,
                "load by a kernel": layers.load_by_kernel,
                "that and store at once": layers.both_ways_with_kernel,
            }
            ways = {"sequential": layers.sequential, **stages}
            for depth, pipeline in pipelines.items():
                ways[f"pipelined, depth {depth}"] = lambda pipeline=pipeline: pipeline.run(
                    layers.loads, layers.stores, layers.callback
                )
            layers.sequential()
            torch.cuda.synchronize()
            expected = torch.stack([layer.cuda() for layer in layers.stores])
            times = {name: [] for name in ways}
            for turn in range(rounds + 1):
                for name in random.sample(list(ways), len(ways)):
                    layers.on_gpu[1].fill_(7)
                    layers.store_all()
                    taken = wall_us(ways[name])
                    if "depth" in name and not all(
                        torch.equal(layer.cuda(), expected[i]) for i, layer in enumerate(layers.stores)
                    ):
                        raise AssertionError(f"{name}: bytes differ from the sequential result")
                    if turn > 0:
                        times[name].append(taken)
            row = {"compute_share": share, "products": layers.products}
            row["times"] = {name: spread(samples, 2 * LAYERS * BYTES) for name, samples in times.items()}
            bound = max(row["times"][stage]["median_us"] for stage in ("load", "compute", "store"))
            shared = max(bound, row["times"]["load and store at once"]["median_us"])
            for name, way in row["times"].items():
                way["times_sequential"] = row["times"]["sequential"]["median_us"] / way["median_us"]
                way["of_bound"], way["of_shared_bound"] = bound / way["median_us"], shared / way["median_us"]
                say(
                    f"compute {share:4} of a load: {name:24} {way['median_us'] / 1e3:8.2f} ms  x{way['times_sequential']:.2f}  {way['of_bound']:.3f} of the slowest stage, "
                    f"{way['of_shared_bound']:.3f} of that with both directions at once"
                )
            rows.append(row)
            say(f"at {time.monotonic() - report.started:.1f} s")
            if share == 1:
                row["timeline"] = {}
                for name in ("sequential", f"pipelined, depth {depths[-1]}"):
                    try:
                        row["timeline"][name] = timeline(ways[name])
                    except (RuntimeError, AttributeError) as error:  # the profiler is a luxury
                        say(f"no timeline: {error}")
        layers.region.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=pathlib.Path, help="path of libkiln_bench.so")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="copies,offload", help="parts to run")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("transfers need an NVIDIA GPU, and torch finds none")
    torch.manual_seed(7)
    random.seed(7)
    kiln = Kiln(arguments.library, torch.cuda.current_stream().cuda_stream)
    kiln.register_kv_series()
    report = Report()
    if "copies" in arguments.only.split(","):
        copies(report, kiln, arguments.rounds)
    if "offload" in arguments.only.split(","):
        offload(report, kiln, arguments.rounds, shares=(0.5, 1, 1.5, 2), depths=(2, 3))
    result_file.emit(report.sections)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
