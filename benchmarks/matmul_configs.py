#!/usr/bin/env python3
"""Drawn products on a GPU, each by many configs: what the choice of a config is fitted to (benchmarks/fit_matmul.py).

    PYTHONPATH=build/python python3 benchmarks/matmul_configs.py ROWS.jsonl [--calls 240] [--seconds 200]

For each product of the seed the default, configs of every variant that serves it and torch are timed in turns, the L2 overwritten before each call. A row has the product, the
default's variant and config, and the median microseconds of each config. Kernels do not depend on extents, so a few hundred serve all products; they are compiled first, and a
config whose kernel is not ready after --compile-seconds is left out. Rows are appended as they come: the same command goes on where an earlier one stopped, after --seconds too.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import random
import statistics
import sys
import time

from drawn_product import ITEM_BYTES, draw_product

SM90 = ("BLOCK_M", "BLOCK_N", "NUM_STAGES", "CLUSTER_M", "CLUSTER_N", "SPLIT_K", "MATH_GROUPS", "TILE_EACH")
# The candidates of ops/matmul/tiling_sm90.cpp and their neighbours.
SM90_TILES = (
    (128, 256, 4, 2, 1, 1, 2, 0),
    (128, 256, 4, 1, 1, 1, 2, 0),
    (128, 256, 4, 1, 2, 1, 2, 0),
    (256, 128, 4, 2, 1, 1, 2, 0),
    (256, 128, 4, 1, 2, 1, 2, 0),
    (256, 128, 4, 1, 1, 1, 2, 0),
    (128, 192, 4, 1, 2, 1, 2, 0),
    (128, 192, 4, 1, 1, 1, 2, 0),
    (128, 128, 6, 2, 1, 1, 2, 1),
    (128, 128, 6, 1, 1, 1, 2, 1),
    (128, 128, 6, 2, 1, 1, 2, 0),
    (128, 128, 6, 1, 1, 1, 2, 0),
    (256, 64, 5, 1, 1, 1, 2, 0),
    (64, 256, 5, 1, 1, 1, 1, 0),
    (64, 192, 6, 1, 1, 1, 1, 0),
    (64, 128, 8, 2, 1, 1, 1, 0),
    (64, 128, 8, 1, 1, 1, 1, 0),
    (128, 64, 8, 1, 1, 1, 2, 0),
    (128, 64, 8, 1, 2, 1, 2, 0),
    (128, 64, 8, 1, 1, 1, 2, 1),
    (128, 64, 7, 1, 1, 2, 2, 0),
    (64, 64, 8, 1, 1, 1, 1, 0),
    (64, 64, 8, 1, 1, 2, 1, 0),
    (64, 64, 8, 1, 1, 4, 1, 0),
    (64, 16, 10, 1, 1, 1, 1, 0),
    (64, 16, 10, 1, 1, 2, 1, 0),
    (64, 16, 15, 1, 1, 1, 1, 0),
    (128, 16, 9, 1, 1, 1, 2, 0),
    (128, 16, 9, 1, 1, 2, 2, 0),
    (64, 32, 10, 1, 1, 1, 1, 0),
    (64, 32, 10, 1, 1, 2, 1, 0),
    (64, 32, 10, 1, 1, 4, 1, 0),
    (128, 32, 9, 1, 1, 1, 2, 0),
    (128, 32, 9, 1, 1, 2, 2, 0),
    (128, 32, 9, 1, 1, 4, 2, 0),
)
# What sets a variant's configs apart from the others'. A tunable's name is what a given config is known by.
FAMILIES = {"sm90": "CLUSTER_M", "tile": "BLOCK_K", "rows": "UNROLL"}
NUM_RANDOM = {"sm90": 12, "tile": 8, "rows": 10}  # of the pool, for each product
POOL = {"sm90": 40, "tile": 20, "rows": 24}  # configs drawn from a space in all
MOST_SAMPLES, LEAST_SAMPLES, SAMPLED_US = 8, 3, 1500  # samples of a call take about so long together
PROBES = 24  # configs of a pool: one of them is valid where its variant serves the call
HOPELESS = 4  # times the best: a config that takes longer is sampled twice
QUEUEING_CYCLES = 160_000  # of the device's clock: more than the host takes to queue one sample
CHECKED = 4096  # elements of each config's output


def text_of(names, values):
    return " ".join(f"{name}={value}" for name, value in zip(names, values))


def spaces(kiln):
    """{variant: its tunables on the GPU}."""
    return {variant.name: variant.tunables("cuda") for variant in kiln.ops.matmul.spec.variants}


def pools(kiln, seed):
    """{variant: random configs of its space}, the same for every product. Those that break a constraint are found out when they are resolved."""
    source, drawn = random.Random(f"{seed}/pools"), {}
    for variant, tunables in spaces(kiln).items():
        family = next((name for name, mark in FAMILIES.items() if mark in tunables), None)
        if family is None or (family == "rows" and variant != "rows"):
            continue
        drawn[variant] = [
            text_of(tunables, [source.choice(values) for values in tunables.values()]) for _ in range(POOL[family] * 6)
        ]
    return drawn


class Candidates:
    """The configs that a product is measured by."""

    def __init__(self, kiln, seed):
        self.kiln, self.seed, self.pools, self.valid = kiln, seed, pools(kiln, seed), {}

    def plan(self, call, config):
        """None where no variant serves the call by this config."""
        try:
            return self.kiln.inspect(
                call.op, *call.inputs, emit="plan", config=config, target="sm_90a", **call.attributes
            )
        except (ValueError, NotImplementedError):
            return None

    def valid_pool(self, call, variant):
        """POOL configs of the variant that hold for calls that it serves."""
        if variant not in self.valid:
            family = next(name for name in FAMILIES if variant.startswith(name))
            plans = ((config, self.plan(call, config)) for config in self.pools[variant])
            kept = [config for config, plan in plans if plan and plan["variant"] == variant]
            self.valid[variant] = kept[: POOL[family]]
        return self.valid[variant]

    def of(self, product, call):
        """{config: variant}."""
        source, chosen = random.Random(f"{self.seed}/{product.index}/configs"), {}
        for family in FAMILIES:
            tiles = [text_of(SM90, tile) for tile in SM90_TILES] if family == "sm90" else []
            of_pools = [text for name in self.pools if name.startswith(family) for text in self.pools[name][:PROBES]]
            plans = {config: self.plan(call, config) for config in [*tiles, *of_pools]}
            # At most one variant of a family serves a call.
            serving = {config: plan["variant"] for config, plan in plans.items() if plan}
            serving = {config: name for config, name in serving.items() if name.startswith(family)}
            for variant in {*serving.values()}:
                pool = self.valid_pool(call, variant)
                drawn = source.sample(pool, min(NUM_RANDOM[family], len(pool)))
                chosen |= {config: variant for config in [*filter(serving.__contains__, tiles), *drawn]}
        return chosen


@dataclasses.dataclass
class Call:
    op: str
    inputs: list
    attributes: dict
    out: object = None
    torch_call: object = None


class Memory:
    """Operands of all products, in the same memory: a pool of normal numbers for each dtype."""

    def __init__(self, torch, size_bytes):
        self.torch, self.size_bytes, self.pools = torch, size_bytes, {}
        self.out = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")

    def dtype(self, name):
        names = {"bf16": "bfloat16", "f16": "float16", "tf32": "float32", "f32": "float32", "fp8e4m3": "float8_e4m3fn"}
        return getattr(self.torch, names[name])

    def pool(self, name):
        torch, dtype = self.torch, self.dtype(name)
        if dtype not in self.pools:
            numbers = torch.empty(self.size_bytes // dtype.itemsize, dtype=dtype, device="cuda")
            step = 1 << 26
            for begin in range(0, numbers.numel(), step):
                part = numbers[begin : begin + step]
                part.copy_(torch.randn(part.numel(), device="cuda"))
            self.pools[dtype] = numbers
        return self.pools[dtype]

    def matrix(self, name, begin, batches, rows, columns, is_transposed):
        """A view of the pool, and where the next may begin."""
        shape = ((batches,) if batches else ()) + ((columns, rows) if is_transposed else (rows, columns))
        size = math.prod(shape)
        view = self.pool(name)[begin : begin + size].view(shape)
        return view.mT if is_transposed else view, begin + -(-size // 1024) * 1024

    def call(self, product):
        torch, p = self.torch, product
        a, end = self.matrix(p.dtype, 0, p.batches, p.m, p.k, p.layout[0] == "T")
        b, end = self.matrix(p.dtype, end, p.batches, p.k, p.n, p.layout[1] == "T")
        out_dtype = torch.bfloat16 if p.dtype == "fp8e4m3" else a.dtype
        shape = ((p.batches,) if p.batches else ()) + (p.m, p.n)
        out = self.out[: math.prod(shape) * out_dtype.itemsize].view(out_dtype).view(shape)
        attributes = {"precision": "tf32"} if p.dtype == "tf32" else {}
        if not p.activation:
            one = torch.ones((), device="cuda")
            product_of = (
                (lambda: torch._scaled_mm(a, b, one, one, out_dtype=out_dtype, out=out))
                if p.dtype == "fp8e4m3"
                else (lambda: torch.matmul(a, b, out=out))
            )
            return Call("matmul", [a, b], attributes, out, product_of)
        bias = self.matrix(out_dtype_name(p), 0, 0, 1, p.n, False)[0].view(-1) if p.has_bias else None
        functional = torch.nn.functional
        activation = {"none": lambda x: x, "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu}

        def linear():
            return activation[p.activation](functional.linear(a, b.T, bias))

        inputs = [a, b.T] + ([bias] if p.has_bias else [])
        return Call("linear", inputs, {**attributes, "activation": p.activation}, out, linear)


def out_dtype_name(product):
    return "bf16" if product.dtype == "fp8e4m3" else product.dtype


def described_call(kiln, product):
    """The call over views that have no memory, for planning on a machine without a GPU; None for dtypes that NumPy lacks."""
    import numpy

    p, item = product, ITEM_BYTES[product.dtype]
    dtype = {4: numpy.float32, 2: numpy.float16}.get(item)
    if dtype is None:
        return None

    def matrix(rows, columns, is_transposed):
        shape = ((p.batches,) if p.batches else ()) + ((columns, rows) if is_transposed else (rows, columns))
        array = numpy.empty(shape, dtype)  # untouched pages cost nothing
        return array.swapaxes(-1, -2) if is_transposed else array

    a, b = matrix(p.m, p.k, p.layout[0] == "T"), matrix(p.k, p.n, p.layout[1] == "T")
    attributes = {"precision": "tf32"} if p.dtype == "tf32" else {}
    if not p.activation:
        return Call("matmul", [a, b], attributes)
    inputs = [a, b.T] + ([numpy.empty(p.n, dtype)] if p.has_bias else [])
    return Call("linear", inputs, {**attributes, "activation": p.activation})


class Measurement:
    def __init__(self, torch, kiln, memory):
        self.torch, self.kiln, self.memory = torch, kiln, memory
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(256)]
        self.shuffle = random.Random(7).shuffle

    def agrees(self, call, run, expected, places, tolerance):
        """Whether elements of the output are those that are expected; also warms the provider up."""
        flat = call.out.view(-1)
        flat[places] = float("nan")
        run()
        return bool(((flat[places].float() - expected).abs() <= tolerance).all())

    def round(self, providers, order):
        self.shuffle(order)
        self.torch.cuda._sleep(QUEUEING_CYCLES * len(order))
        for name, (start, stop) in zip(order, self.events):
            self.flush.zero_()
            start.record()
            providers[name]()
            stop.record()
        self.torch.cuda.synchronize()
        return {name: start.elapsed_time(stop) * 1e3 for name, (start, stop) in zip(order, self.events)}

    def times(self, providers):
        samples = {name: [] for name in providers}
        for _ in range(2):
            for name, us in self.round(providers, list(providers)).items():
                samples[name].append(us)
        best = min(min(of) for of in samples.values())
        hopeful = [name for name, of in samples.items() if min(of) < HOPELESS * best or name in ("torch", "default")]
        for _ in range(round(min(max(SAMPLED_US / best, LEAST_SAMPLES), MOST_SAMPLES)) - 2):
            for name, us in self.round(providers, hopeful).items():
                samples[name].append(us)
        return {name: round(statistics.median(of), 3) for name, of in samples.items()}

    def row(self, product, call, runs):
        torch = self.torch
        torch.backends.cuda.matmul.allow_tf32 = product.dtype == "tf32"
        row = {**dataclasses.asdict(product), "kind": product.kind}
        flat, providers, failed = call.out.view(-1), {}, {}
        places = torch.randint(flat.numel(), (CHECKED,), device="cuda")
        expected = None
        try:
            result = call.torch_call()
            expected = (call.out if result is None else result).reshape(-1)[places].float()
            providers["torch"] = call.torch_call
        except RuntimeError as error:
            failed["torch"] = str(error)[:100]
        for name, run in runs.items():
            try:
                if expected is None:
                    run()
                    expected = flat[places].float()
                tolerance = expected.abs() * 2e-2 + 3e-2 * math.sqrt(product.k)
                if self.agrees(call, run, expected, places, tolerance):
                    providers[name] = run
                else:
                    failed[name] = "wrong"
            except (RuntimeError, ValueError) as error:
                failed[name] = str(error)[:100]
        if providers:
            row["us"] = self.times(providers)
        if failed:
            row["failed"] = failed
        return row


def resolved(kiln, call, config):
    op = kiln.resolve(call.op, *call.inputs, out=call.out, config=config, tuning="off", **call.attributes)

    def run():
        op(*call.inputs, out=call.out)

    return run, op.report


def compile_all(kiln, wanted, seconds):
    """{(index, config): (run, report)} of (index, call, config); what is not ready in time is left out."""
    deadline, done = time.monotonic() + seconds, {}

    def attempt(index, call, config):
        if time.monotonic() > deadline:
            return
        try:
            done[index, config] = resolved(kiln, call, config)
        except Exception as error:
            done[index, config] = error

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda task: attempt(*task), wanted))
    return done


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=pathlib.Path, help="file of rows, a JSON object a line")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--calls", type=int, default=240)
    parser.add_argument("--seconds", type=float, default=200, help="begin no product after so long")
    parser.add_argument("--compile-seconds", type=float, default=90)
    parser.add_argument("--list", action="store_true", help="print the products and how many configs each has; no GPU")
    return parser.parse_args()


def listed(kiln, arguments):
    candidates, kernels = Candidates(kiln, arguments.seed), set()
    for index in range(arguments.calls):
        product = draw_product(arguments.seed, index)
        call = described_call(kiln, product)
        if call is None:
            continue
        started = time.monotonic()
        default, configs = candidates.plan(call, None), candidates.of(product, call)
        for config in configs:
            source = kiln.inspect(call.op, *call.inputs, emit="source", config=config, target="sm_90a", **call.attributes)
            kernels.add(source if isinstance(source, str) else json.dumps(source))
        ms = (time.monotonic() - started) * 1e3
        print(f"{index:4} {product} [{default['variant']}] {len(configs)} configs, {len(kernels)} kernels, {ms:.0f} ms")


def main():
    arguments, started = parsed(), time.monotonic()
    import kiln

    if arguments.list:
        listed(kiln, arguments)
        return
    import torch

    have = set()
    if arguments.rows.exists():
        have = {json.loads(line)["index"] for line in arguments.rows.read_text().splitlines()}
    products = [draw_product(arguments.seed, index) for index in range(arguments.calls)]
    products = [product for product in products if product.index not in have]
    memory, candidates = Memory(torch, int(4.3e9)), Candidates(kiln, arguments.seed)
    measurement, calls, configs, wanted = Measurement(torch, kiln, memory), {}, {}, []
    for product in products:
        calls[product.index] = call = memory.call(product)
        configs[product.index] = [None, *candidates.of(product, call)]
        wanted += [(product.index, call, config) for config in configs[product.index]]
    # Those that wait for one kernel are seldom neighbours then.
    random.Random(arguments.seed).shuffle(wanted)
    wanted.sort(key=lambda task: task[2] is not None)
    print(f"{len(wanted)} configs of {len(products)} products planned after {time.monotonic() - started:.0f} s", flush=True)
    done = compile_all(kiln, wanted, arguments.compile_seconds)
    print(f"{len(done)} compiled after {time.monotonic() - started:.0f} s", flush=True)
    with arguments.rows.open("a") as file:
        for product in products:
            if time.monotonic() - started > arguments.seconds:
                break
            runs, failed = {}, {}
            for config in configs[product.index]:
                made = done.get((product.index, config))
                name = config or "default"
                if isinstance(made, Exception):
                    failed[name] = str(made)[:100]
                elif made:
                    runs[name] = made[0]
            try:
                row = measurement.row(product, calls[product.index], runs)
            except Exception as error:
                row = {**dataclasses.asdict(product), "failed": {"": str(error)[:200]}}
                print(json.dumps(row), file=file, flush=True)
                torch.cuda.synchronize()  # raises where the GPU has faulted, which ends this process
                continue
            if isinstance(made := done.get((product.index, None)), tuple):
                row["variant"], row["config"] = made[1].variant, text_of(made[1].config, made[1].config.values())
            if failed:
                row.setdefault("failed", {}).update(failed)
            print(json.dumps(row), file=file, flush=True)
            us = row.get("us", {})
            if "torch" in us and "default" in us:
                best = min(us, key=lambda name: us[name] if name != "torch" else math.inf)
                print(
                    f"{product}: torch {us['torch']:.1f}, default {us['torch'] / us['default']:.2f}, best {us['torch'] / us[best]:.2f}"
                    f" [{best}] of {len(us)}",
                    file=sys.stderr,
                    flush=True,
                )
    print(f"done after {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
