"""Rows of a KV cache from pinned host memory to a GPU: Kiln's sparse_kv_gather beside the published series of kernels, the copy engine and a contiguous read.

128 requests of 2048 rows of 656 bytes, no row twice, to rows of the destination in random order; GB/s of rows that arrive. Every provider's result is compared with the
source, byte for byte, before it is timed. Prints one JSON object; a part that fails says so in its place and the others still run.

Needs as much free host memory as the largest pool (--pools), and as much on the GPU, where the source's bytes are kept to compare with.
"""

import argparse
import ctypes
import math
import os
import statistics
import sys
import time

import result_file
import torch
from gpu_timing import measure, summary
from host_pool import HostPool
from kiln_library import Kiln, PackedGather
from report import Report, say

REQUESTS, TOP_K, ROW_BYTES = 128, 2048, 656
PAIRS = REQUESTS * TOP_K
ORDERS = ("random", "sorted", "request-local")
SMS = (1, 2, 3, 4, 8, 16, 32, 132)
LARGEST_ROW_BYTES = 4096
POISON = 0xA5
# The published series, in its order; see python/kiln/experiments/kv_series.cuh.
SERIES = {
    "bytewise": "STEP=0 SMS=132",
    "16 bytes a thread": "STEP=1 SMS=132",
    "warp per row": "STEP=2 SMS=132",
    "warp per row, 16 SMs": "STEP=2 SMS=16",
    "rows in flight": "STEP=3 SMS=132 ROWS=4",
    "rows in flight, 16 SMs": "STEP=3 SMS=16 ROWS=4",
}
# What a tuner would try of sparse_kv_gather: kernels, whether they sort the pairs, and SMs.
KERNELS = (
    "",
    "ROWS_IN_FLIGHT=2 PACKETS=3",
    "LANES=32 ROWS_IN_FLIGHT=2 PACKETS=2",
    "LANES=16 PACKETS=3",
    "num_warps=16",
)
TUNER_CONFIGS = [
    f"{kernel} SORT={sort} SMS={sms}".strip() for kernel in KERNELS for sort in (0, 1) for sms in (2, 3, 4, 6, 8)
]
# Likewise for rows that are slower for their bytes than their neighbours, which are short.
SHORT_ROW_CONFIGS = [
    f"LANES={lanes} ROWS_IN_FLIGHT={rows} PACKETS={packets} ALIGN_LANES={align} SMS={sms}"
    for lanes in (4, 8)
    for rows, packets in ((4, 1), (2, 2), (2, 3), (1, 6))
    for align in (0, 1)
    for sms in (4, 8)
]
SLOW_BESIDE_NEIGHBOURS = 0.9
THREADS = (1, 2, 4, 8, 16)


def make_pairs(order, rows, count=PAIRS):
    """(count, 2) int32 on the GPU: distinct source rows out of `rows` in this order, and the destination's rows shuffled."""
    if order == "request-local":
        share = rows // REQUESTS
        source = torch.cat(
            [start * share + torch.randperm(share, device="cuda")[: count // REQUESTS] for start in range(REQUESTS)]
        )
    else:
        source = torch.randperm(rows, device="cuda")[:count]
        if order == "sorted":
            source = source.sort().values
    return torch.stack([source, torch.randperm(count, device="cuda")], dim=1).int()


class Rows:
    """One gather: `count` rows of `row_bytes` out of the first `rows` of the pool."""

    def __init__(self, kiln, pool, copy, order, rows, row_bytes=ROW_BYTES, count=PAIRS):
        self.kiln, self.row_bytes, self.bytes = kiln, row_bytes, count * row_bytes
        self.src = pool[: rows * row_bytes].view(rows, row_bytes)
        self.pairs = make_pairs(order, rows, count)
        self.dst = torch.empty((count, row_bytes), dtype=torch.uint8, device="cuda")
        source, target = self.pairs[:, 0].long(), self.pairs[:, 1].long()
        self.expected = torch.empty_like(self.dst)
        words = lambda tensor: tensor.view(torch.int64)  # rows are a multiple of 16 bytes
        words(self.expected)[target] = words(copy[: rows * row_bytes].view(rows, row_bytes))[source]

    def arrived(self, call):
        """Whether every row is where it belongs after `call`, and nothing else was written."""
        self.dst.fill_(POISON)
        call()
        torch.cuda.synchronize()
        return torch.equal(self.dst, self.expected)

    def lines_per_row(self):
        """How many lines of 128 bytes a row touches: the bus is asked line by line."""
        first = self.pairs[:, 0].long() * self.row_bytes
        return ((first + self.row_bytes - 1) // 128 - first // 128 + 1).double().mean().item()

    def op(self, name, attributes=None, config=None):
        inputs = [
            self.dst,
            self.src,
            self.pairs if name == "benchmark_kv_series" else self.pairs.view(-1, min(TOP_K, len(self.pairs)), 2),
        ]
        call = self.kiln.resolve(name, [], inputs, attributes, config)
        if not self.arrived(call):
            raise AssertionError(f"{name} {config or attributes or ''}: rows differ from the source")
        return call

    def series(self, config):
        return self.op("benchmark_kv_series", config=config)

    def kiln_op(self, attributes=None, config=None):
        return self.op("sparse_kv_gather", attributes, config)


def time_all(rows, providers, gather, samples, flush, **facts):
    """Appends one row for each provider, a dict of name -> (call, facts); calls that were refused are text."""
    calls = {name: call for name, (call, _) in providers.items() if not isinstance(call, str)}
    times = measure(calls, samples, flush)
    for name, (call, own) in providers.items():
        row = {"provider": name, **facts, **own}
        if isinstance(call, str):
            row["refused"] = call
        else:
            row.update(summary(times[name], gather.bytes), config=getattr(call, "config", ""))
        rows.append(row)
        say(
            f"{' '.join(str(fact) for fact in facts.values()):26} {name:40} {row.get('gb_s', math.nan):7.2f}  {row.get('config', '')}"
        )


def attempt(make):
    """A call, or why there is none: not every config serves every call."""
    try:
        return make()
    except RuntimeError as error:
        return str(error)


def staircase(report, gather, samples, flush):
    """The published steps, Kiln, and what bounds them, on the small pool."""
    with report.section("staircase") as rows:
        kept = gather.src.view(-1)[: gather.bytes].view_as(gather.dst)
        whole = kept.cuda()
        providers = {name: (gather.series(config), {}) for name, config in SERIES.items()}
        providers["Kiln, default"] = (gather.kiln_op(), {"sms": None})
        for sms in SMS:
            contiguous = gather.kiln.resolve(
                "benchmark_kv_series", [], [gather.dst, kept, gather.pairs], None, f"STEP=4 SMS={sms} ROWS=8"
            )
            gather.dst.fill_(POISON)
            contiguous()
            torch.cuda.synchronize()
            assert torch.equal(gather.dst, whole), "contiguous read: bytes differ from the source"
            providers[f"contiguous read, {sms} SMs"] = (contiguous, {"bound": True, "sms": sms})
        providers["copy engine, contiguous"] = (lambda: gather.dst.copy_(kept, non_blocking=True), {"bound": True})
        time_all(rows, providers, gather, samples, flush)


def tuned(gather, configs, flush):
    """The fastest of `configs`; its own time is to be taken again, as the best of many readings is too good."""
    calls = {config: attempt(lambda: gather.kiln_op(config=config)) for config in configs}
    times = measure({config: call for config, call in calls.items() if not isinstance(call, str)}, 3, flush)
    return calls[min(times, key=lambda config: statistics.median(times[config]))]


def pools(report, kiln, pool, copy, sizes, samples, flush):
    """Pools, orders of the indices and numbers of SMs."""
    with report.section("pools") as rows:
        for size in sizes:
            for order in ORDERS:
                gather = Rows(kiln, pool, copy, order, size // ROW_BYTES)
                providers = {"Kiln, default": (gather.kiln_op(), {"sms": None})}
                for sms in SMS:
                    providers[f"warp per row, {sms} SMs"] = (gather.series(f"STEP=2 SMS={sms}"), {"sms": sms})
                    providers[f"rows in flight, {sms} SMs"] = (gather.series(f"STEP=3 SMS={sms} ROWS=4"), {"sms": sms})
                    providers[f"Kiln, {sms} SMs"] = (attempt(lambda: gather.kiln_op(config=f"SMS={sms}")), {"sms": sms})
                providers["Kiln, tuned"] = (tuned(gather, TUNER_CONFIGS, flush), {"sms": None})
                time_all(rows, providers, gather, samples, flush, pool_mib=size >> 20, order=order)


def row_sizes(report, kiln, pool, copy, size, step, flush):
    """Every row size: which are slower for their bytes than their neighbours, and is that the config or the bus?"""

    def gather_of(row_bytes):
        total = size // row_bytes
        count = min(PAIRS, (64 << 20) // row_bytes, total) // TOP_K * TOP_K
        return Rows(kiln, pool, copy, "random", total, row_bytes, count)

    with report.section("row_sizes") as rows:
        for row_bytes in range(16, LARGEST_ROW_BYTES + 1, step):
            gather = gather_of(row_bytes)
            call = gather.kiln_op()
            times = measure({"kiln": call}, 5, flush)["kiln"]
            rows.append(
                {
                    "row_bytes": row_bytes,
                    "rows": len(gather.dst),
                    "lines_per_row": gather.lines_per_row(),
                    "config": call.config,
                    **summary(times, gather.bytes),
                }
            )
            rows[-1]["lines_per_us"] = rows[-1]["lines_per_row"] * len(gather.dst) / rows[-1]["median_us"]
        for before, row, after in zip([rows[0], *rows], list(rows), [*rows[1:], rows[-1]]):
            row["of_better_neighbour"] = row["gb_s"] / max(before["gb_s"], after["gb_s"])
        for row in rows:
            if row["of_better_neighbour"] < SLOW_BESIDE_NEIGHBOURS:
                gather = gather_of(row["row_bytes"])
                call = tuned(gather, SHORT_ROW_CONFIGS, flush)
                row["tuned"] = {
                    "config": call.config,
                    **summary(measure({"tuned": call}, 5, flush)["tuned"], gather.bytes),
                }
                say(
                    f"{row['row_bytes']:5} bytes: {row['gb_s']:.1f} GB/s, {row['of_better_neighbour']:.2f} of the better neighbour, {row['lines_per_us']:.0f} lines/us; "
                    f"tuned {row['tuned']['gb_s']:.1f} with {call.config}"
                )


def packed(report, kiln, pool, copy, size, samples):
    """The way that packs rows on the CPU, by the host's clock, as it keeps the host busy."""
    with report.section("packed") as rows:
        by_packing = PackedGather(kiln)
        for order in ("random", "request-local"):
            gather = Rows(kiln, pool, copy, order, size // ROW_BYTES)
            pairs = gather.pairs.view(REQUESTS, TOP_K, 2).cpu()
            for threads in (threads for threads in THREADS if threads <= os.cpu_count()):
                call = lambda: by_packing.run(gather.dst, gather.src, pairs, threads)
                if not gather.arrived(call):
                    raise AssertionError(f"packed by {threads} threads: rows differ from the source")
                taken = []
                for _ in range(samples):
                    torch.cuda.synchronize()
                    started = time.perf_counter()
                    call()
                    torch.cuda.synchronize()
                    taken.append((time.perf_counter() - started) * 1e6)
                rows.append(
                    {"pool_mib": size >> 20, "order": order, "threads": threads, **summary(taken, gather.bytes)}
                )
                say(f"{order:14} packed by {threads:2} threads {rows[-1]['gb_s']:6.2f}")


def timed(call, count, stream):
    """Events around `count` calls, which go to `stream`."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record(stream)
    for _ in range(count):
        call()
    stop.record(stream)
    return start, stop


def beside(product, gather, gather_bytes, products):
    """Microseconds of a product while `gather` runs on another stream without a pause, and GB/s of the gather while products do."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    address = ctypes.c_void_p(side.cuda_stream)
    torch.cuda.synchronize()
    alone = timed(product, products, main)
    torch.cuda.synchronize()
    alone_us = alone[0].elapsed_time(alone[1]) * 1e3 / products
    measured_ms, outlasted = {}, {}
    for what, inner, outer in (
        ("product", (product, products, main), (lambda: gather(address), 30, side)),
        ("gather", (lambda: gather(address), 4, side), (product, 16 * products, main)),
    ):
        torch.cuda._sleep(20_000_000)  # 10 ms, so that all is queued before anything runs
        side.wait_stream(main)
        around = timed(*outer)
        with torch.cuda.stream(inner[2]):
            torch.cuda._sleep(1_000_000)  # the other one is under way when this one starts
        within = timed(*inner)
        torch.cuda.synchronize()
        measured_ms[what] = within[0].elapsed_time(within[1])
        outlasted[what] = around[0].elapsed_time(within[1]) <= around[0].elapsed_time(around[1])
    return {
        "product_alone_us": alone_us,
        "product_beside_us": measured_ms["product"] * 1e3 / products,
        "slowdown": measured_ms["product"] * 1e3 / products / alone_us,
        "gather_beside_gb_s": 4 * gather_bytes / measured_ms["gather"] / 1e6,
        "outlasted": all(outlasted.values()),
    }


def beside_products(report, gather, rounds=3):
    """What a gather costs a bf16 matrix product of 4096^3 on another stream."""
    with report.section("beside_matmul") as rows:
        a, b = (torch.randn((4096, 4096), device="cuda", dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(a)
        products = {
            "torch": lambda: torch.mm(a, b, out=out),
            "Kiln": gather.kiln.resolve("matmul", [out], [a, b]),
            "Kiln, num_sms=128": gather.kiln.resolve("matmul", [out], [a, b], {"num_sms": 128}),
        }
        gathers = {
            "Kiln, default": gather.kiln_op(),
            "Kiln, max_sms=2": gather.kiln_op({"max_sms": 2}),
            "Kiln, max_sms=4": gather.kiln_op({"max_sms": 4}),
            "warp per row, 16 SMs": gather.series("STEP=2 SMS=16"),
            "warp per row, 132 SMs": gather.series("STEP=2 SMS=132"),
        }
        for name, product in products.items():
            for _ in range(20):
                product()
            for kind, call in gathers.items():
                taken = [beside(product, call, gather.bytes, 24) for _ in range(rounds)]
                row = {"product": name, "gather": kind, "config": call.config}
                row.update(
                    {key: statistics.median(each[key] for each in taken) for key in taken[0] if key != "outlasted"}
                )
                row["outlasted"] = all(each["outlasted"] for each in taken)
                rows.append(row)
                say(
                    f"product by {name:18} beside {kind:22} x{row['slowdown']:.2f}, gather {row['gather_beside_gb_s']:.1f} GB/s"
                    + ("" if row["outlasted"] else " (one ended too early)")
                )


def reached(sections):
    """Kiln's default beside what there is to compare with, as far as it was measured."""

    def rate(rows, **facts):
        found = [
            row["gb_s"] for row in rows if "gb_s" in row and all(row.get(key) == value for key, value in facts.items())
        ]
        return max(found, default=None)

    claims = []

    def claim(what, value, of):
        if value and of:
            claims.append({"what": what, "value": value / of})

    steps, pool_rows = sections.get("staircase", []), sections.get("pools", [])
    contiguous = max((row["gb_s"] for row in steps if row.get("bound") and row.get("sms")), default=None)
    claim("staircase: Kiln, of a contiguous read", rate(steps, provider="Kiln, default"), contiguous)
    for size, order in sorted({(row["pool_mib"], row["order"]) for row in pool_rows if "gb_s" in row}):
        here = [row for row in pool_rows if row.get("pool_mib") == size and row.get("order") == order]
        kiln = rate(here, provider="Kiln, default")
        name = f"{size} MiB, {order}: Kiln"
        claim(f"{name}, of tuned", kiln, rate(here, provider="Kiln, tuned"))
        claim(f"{name}, times a warp per row, 16 SMs", kiln, rate(here, provider="warp per row, 16 SMs"))
        claim(
            f"{name}, times a warp per row, its best number of SMs",
            kiln,
            max(row.get("gb_s", 0) for row in here if row["provider"].startswith("warp per row")),
        )
        claim(
            f"{name}, times rows in flight, its best number of SMs",
            kiln,
            max(row.get("gb_s", 0) for row in here if row["provider"].startswith("rows in flight")),
        )
    sizes = [row["of_better_neighbour"] for row in sections.get("row_sizes", []) if "of_better_neighbour" in row]
    claim("row sizes: the slowest beside its better neighbour", min(sizes, default=None), 1)
    return claims


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument("--pools", default="188,2048,24576", help="MiB, smallest first")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--only", default="staircase,pools,row_sizes,beside_matmul,packed", help="parts to run")
    parser.add_argument("--row-step", type=int, default=16, help="between the row sizes that are measured")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("gathers from pinned memory need an NVIDIA GPU, and torch finds none")
    parts = arguments.only.split(",")
    sizes = [int(size) << 20 for size in arguments.pools.split(",")]
    torch.manual_seed(7)
    report = Report()
    kiln = Kiln(arguments.library, torch.cuda.current_stream().cuda_stream)
    kiln.register_kv_series()
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    copy = torch.empty(sizes[-1] // 8, dtype=torch.int64, device="cuda").random_().view(torch.uint8)
    host = HostPool(sizes[-1], copy)
    say(f"{sizes[-1] >> 20} MiB pinned and filled at {time.monotonic() - report.started:.1f} s")
    small = Rows(kiln, host.tensor, copy, "random", sizes[0] // ROW_BYTES)
    if "staircase" in parts:
        staircase(report, small, arguments.samples, flush)
    if "pools" in parts:
        pools(report, kiln, host.tensor, copy, sizes, arguments.samples, flush)
    if "row_sizes" in parts:
        row_sizes(report, kiln, host.tensor, copy, sizes[0], arguments.row_step, flush)
    if "beside_matmul" in parts:
        beside_products(report, small)
    if "packed" in parts:
        packed(report, kiln, host.tensor, copy, sizes[-1], arguments.samples)
    report.sections["reached"] = reached(report.sections)
    for claim in report.sections["reached"]:
        say(f"{claim['what']}: {claim['value']:.3f}")
    result_file.emit(report.sections)
    host.close()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
