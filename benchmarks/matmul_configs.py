#!/usr/bin/env python3
"""Drawn products on a GPU, each by many configs: what the models of ops/matmul are held against.

    PYTHONPATH=build/python python3 benchmarks/matmul_configs.py ROWS.jsonl [--calls 150] [--seconds 200]

The products are those of benchmarks/random_calls.py, but for their activations, and f16 is bf16, which takes as long: kernels do not depend on extents, so that about a thousand
serve them all. Of each variant that serves a product some configs are drawn, those that fill the GPU before others, and timed in turns with the default and torch, the L2
overwritten before each call; every result is compared with an exact one. Kernels are compiled first, on all CPUs: a config whose kernel is not ready after --compile-seconds
is left out. A row has the product, the default's variant and config, and the median microseconds of each config. Rows are appended as they come: the same command goes on
where an earlier one stopped. `--list` needs no GPU, and no torch.
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

from drawn_call import ITEM_BYTES
from gpu_call_draw import draw_gpu_call

SM90 = ("BLOCK_M", "BLOCK_N", "NUM_STAGES", "CLUSTER_M", "CLUSTER_N", "SPLIT_K", "MATH_GROUPS", "TILE_EACH", "RESIDENT")
WIDE_TILES = (
    (128, 256, 4, 2, 1, 1, 2, 0, 1),
    (128, 256, 4, 1, 1, 1, 2, 0, 1),
    (256, 128, 4, 2, 1, 1, 2, 0, 1),
    (256, 128, 4, 1, 1, 1, 2, 0, 1),
    (128, 224, 4, 1, 1, 1, 2, 0, 1),
    (128, 192, 4, 1, 2, 1, 2, 0, 1),
    (128, 192, 4, 1, 1, 1, 2, 0, 1),
    (128, 160, 4, 1, 1, 1, 2, 0, 1),
    (128, 128, 6, 2, 1, 1, 2, 1, 1),
    (128, 128, 6, 1, 1, 1, 2, 1, 1),
    (128, 128, 6, 2, 1, 1, 2, 0, 1),
    (128, 128, 6, 1, 1, 1, 2, 0, 1),
    (128, 112, 6, 1, 1, 1, 2, 0, 1),
    (128, 96, 6, 1, 1, 1, 2, 0, 1),
    (128, 80, 6, 1, 1, 1, 2, 0, 1),
    (128, 64, 8, 1, 1, 1, 2, 0, 1),
    (128, 64, 8, 1, 1, 1, 2, 1, 1),
    (128, 48, 8, 1, 1, 1, 2, 0, 1),
    (64, 256, 4, 1, 1, 1, 1, 0, 1),
    (64, 128, 8, 2, 1, 1, 1, 0, 1),
    (64, 128, 8, 1, 1, 1, 1, 0, 1),
    (64, 128, 4, 1, 1, 1, 1, 0, 2),
    (64, 64, 8, 1, 1, 1, 1, 0, 1),
    (64, 64, 5, 1, 1, 1, 1, 0, 2),
    (64, 48, 8, 1, 1, 1, 1, 0, 1),
    (128, 64, 6, 1, 1, 2, 2, 0, 1),
    (64, 64, 8, 1, 1, 2, 1, 0, 1),
    (64, 64, 6, 1, 1, 4, 1, 0, 1),
)
NARROW_TILES = (
    (64, 16, 10, 1, 1, 1, 1, 0, 1),
    (64, 16, 10, 1, 1, 2, 1, 0, 1),
    (128, 16, 9, 1, 1, 1, 2, 0, 1),
    (128, 16, 9, 1, 1, 2, 2, 0, 1),
    (64, 32, 10, 1, 1, 1, 1, 0, 1),
    (64, 32, 10, 1, 1, 2, 1, 0, 1),
    (64, 32, 8, 1, 1, 4, 1, 0, 1),
    (128, 32, 9, 1, 1, 1, 2, 0, 1),
    (128, 32, 9, 1, 1, 2, 2, 0, 1),
)
SHARES = (0, 4)  # of K_SHARE
FEW = 32  # rows or columns of a narrow product
PROCESSORS = 132
# What sets a variant's configs apart from the others': a tunable's name.
FAMILIES = {"sm90": "CLUSTER_M", "tile": "NUM_STAGES", "rows": "UNROLL", "thin": "UNROLL"}
NUM_RANDOM = {"sm90": 2, "tile": 6, "rows": 5, "thin": 4}  # of the pool, for each product
POOL = {"sm90": 16, "tile": 20, "rows": 16, "thin": 10}  # configs drawn from a space in all
NUM_TILES = 9  # of those above, for each product
PROBES = 24  # configs of a pool: one of them is valid where its variant serves the call
MOST_SAMPLES, LEAST_SAMPLES, SAMPLED_US = 8, 3, 1500  # samples of a config take about so long together
HOPELESS = 4  # times the best: a config that takes longer is sampled twice
QUEUEING_CYCLES = 160_000  # of the device's clock: more than the host takes to queue one sample


def text_of(names, values):
    return " ".join(f"{name}={value}" for name, value in zip(names, values))


def product(seed, index):
    """The product of this number, without an activation, of bf16 for f16."""
    call = draw_gpu_call(seed, "products", index)
    inputs = tuple(dataclasses.replace(x, dtype="bf16") if x.dtype == "f16" else x for x in call.inputs)
    attributes = call.attributes | ({"activation": "none"} if call.op == "linear" else {})
    out_dtype = "bf16" if call.out_dtype == "f16" else call.out_dtype
    return dataclasses.replace(call, inputs=inputs, attributes=attributes, out_dtype=out_dtype)


def extents(call):
    """m, n, k and batches of a call."""
    a, b = (x.shape for x in call.inputs[:2])
    n = b[-2] if call.op == "linear" else b[-1]
    return a[-2], n, a[-1], math.prod(call.out_shape[:-2])


def occupancy(tile, rows, columns, batches):
    """The share of what the GPU multiplies in the rounds of this tile that is wanted."""
    block_m, block_n, _, cluster_m, cluster_n, split, *_, resident = tile
    tiles = math.ceil(math.ceil(rows / block_m) / cluster_m) * math.ceil(math.ceil(columns / block_n) / cluster_n)
    clusters = PROCESSORS * resident // (cluster_m * cluster_n * split)
    rounds = math.ceil(tiles * batches / clusters)
    return rows * columns * batches / (rounds * PROCESSORS * resident * block_m * block_n)


class Candidates:
    """The configs that a call is measured by. `arrays_of(call)`: what stands for its inputs."""

    def __init__(self, kiln, seed, arrays_of):
        self.kiln, self.seed, self.arrays_of, self.valid = kiln, seed, arrays_of, {}
        source, self.pools = random.Random(f"{seed}/pools"), {}
        for variant in kiln.ops.matmul.spec.variants:
            tunables, family = variant.tunables("cuda"), variant.name.partition("_")[0]
            if FAMILIES.get(family) in tunables:
                drawn = ([source.choice(values) for values in tunables.values()] for _ in range(8 * POOL[family]))
                self.pools[variant.name] = [text_of(tunables, values) for values in drawn]

    def variant_of(self, call, inputs, config):
        """None where no variant serves the call by this config."""
        try:
            plan = self.kiln.inspect(call.op, *inputs, emit="plan", config=config, target="sm_90a", **call.attributes)
            return plan["variant"]
        except (ValueError, NotImplementedError):
            return None

    def valid_pool(self, call, inputs, variant):
        """POOL configs of the variant that hold for calls that it serves."""
        if variant not in self.valid:
            kept = (text for text in self.pools[variant] if self.variant_of(call, inputs, text) == variant)
            size = POOL[variant.partition("_")[0]]
            self.valid[variant] = [text for _, text in zip(range(size), kept)]
        return self.valid[variant]

    def tiles(self, call, source):
        """Of the sm_90a kernel, those that fill the GPU with what is wanted before others."""
        m, n, _, batches = extents(call)
        if narrow := min(m, n) <= FEW:
            m, n = max(m, n), min(m, n)
        texts = {}
        for exchange in (0,) if narrow else (0, 1):
            for tile in NARROW_TILES if narrow else WIDE_TILES:
                rank = occupancy(tile, *((n, m) if exchange else (m, n)), batches) * source.uniform(0.6, 1)
                share = 0 if tile[5] > 1 else source.choice(SHARES)
                texts[f"{text_of(SM90, tile)} K_SHARE={share} EXCHANGE={exchange}"] = rank
        return sorted(texts, key=texts.get, reverse=True)[:NUM_TILES]

    def of(self, call):
        """{config: variant}."""
        source, chosen, inputs = random.Random(f"{self.seed}/{call.index}/configs"), {}, self.arrays_of(call)
        tiles = self.tiles(call, source)
        chosen = {text: self.variant_of(call, inputs, text) for text in tiles}
        for variant, pool in self.pools.items():
            probes = self.valid[variant][:1] if variant in self.valid else pool[:PROBES]
            if any(self.variant_of(call, inputs, text) == variant for text in probes):
                valid, family = self.valid_pool(call, inputs, variant), variant.partition("_")[0]
                chosen |= dict.fromkeys(source.sample(valid, min(NUM_RANDOM[family], len(valid))), variant)
        return {text: variant for text, variant in chosen.items() if variant}


def stand_ins(call):
    """NumPy arrays without memory to speak of, of types as wide as the call's."""
    import numpy

    dtypes = {4: numpy.float32, 2: numpy.float16}
    return [drawn.view_of(numpy.empty(drawn.stored_shape, dtypes[ITEM_BYTES[drawn.dtype]])) for drawn in call.inputs]


class Measurement:
    def __init__(self, torch, kiln):
        import gpu_measurement
        import torch_arrays

        self.torch, self.kiln, self.arrays, self.ways_of = torch, kiln, torch_arrays, gpu_measurement.torch_calls
        self.flush = torch.empty(gpu_measurement.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self.events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(128)]
        self.shuffle = random.Random(7).shuffle

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
        """Median microseconds by provider; those without hope are sampled twice."""
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

    def row(self, call, ops):
        torch, arrays = self.torch, self.arrays
        torch.backends.cuda.matmul.allow_tf32 = call.precision == "tf32"
        inputs, result = arrays.inputs_of(call, "cuda"), arrays.GuardedResult(call, "cuda")
        expected, out = arrays.exact_result(call, inputs), result.out
        ways = self.ways_of(call.op, inputs, call.attributes, out)
        providers, failed = {}, {}
        calls = {"torch": next(iter(ways.values()))}
        for name, op in ops.items():
            calls[name] = lambda op=op: op(*inputs, out=out)
        for name, run in calls.items():
            try:
                result.reset()
                made = run()
                error = arrays.error_in_tolerances(call, inputs, made if name == "torch" else out, expected)
                if name != "torch" and not (error is not None and error <= 1 and result.is_guarded()):
                    failed[name] = f"error {error}, guarded {result.is_guarded()}"
                else:
                    providers[name] = run
            except (RuntimeError, NotImplementedError, self.kiln.Error) as problem:
                failed[name] = str(problem)[:150]
        del expected
        return {"us": self.times(providers)} | ({"failed": failed} if failed else {})


def compiled(kiln, calls, wanted, seconds):
    """{(index, config): resolved op, or an error} of (index, config) by their calls; what is not ready in time is left out."""
    import torch_arrays

    deadline, done, places = time.monotonic() + seconds, {}, torch_arrays.PlacedArrays(list(calls.values()), "cuda")

    def attempt(index, config):
        if time.monotonic() > deadline:
            return
        call, (inputs, out) = calls[index], places.of(calls[index])
        try:
            done[index, config] = kiln.resolve(
                call.op, *inputs, out=out, config=config, tuning="off", **call.attributes
            )
        except kiln.Error as error:
            done[index, config] = error

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda task: attempt(*task), wanted))
    return done


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=pathlib.Path, help="file of rows, a JSON object a line")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--calls", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=200, help="begin no product after so long")
    parser.add_argument("--compile-seconds", type=float, default=120)
    parser.add_argument("--list", action="store_true", help="print the products and how many configs each has; no GPU")
    return parser.parse_args()


def listed(kiln, calls, seed):
    candidates, kernels = Candidates(kiln, seed, stand_ins), set()
    for call in calls.values():
        if call.dtype == "fp8e4m3":  # NumPy has none
            continue
        started, inputs = time.monotonic(), stand_ins(call)
        configs = candidates.of(call)
        ms = (time.monotonic() - started) * 1e3
        for config in (None, *configs):
            plan = kiln.inspect(call.op, *inputs, emit="plan", config=config, target="sm_90a", **call.attributes)
            kernels |= {kernel["kernel"] for kernel in plan["kernels"]}
        variants = ", ".join(sorted({*configs.values()}))
        print(f"{call.index:4} {call} [{variants}] {len(configs)} configs, {len(kernels)} kernels, {ms:.0f} ms")


def described(call, report):
    """What a row says of its call."""
    m, n, k, batches = extents(call)
    inputs = [[list(x.shape), x.layout] for x in call.inputs]
    return {
        "index": call.index, "kind": call.kind, "op": call.op, "call": str(call), "dtype": call.precision, "m": m, "n": n, "k": k,
        "batches": batches, "inputs": inputs, "variant": report.variant, "config": text_of(report.config, report.config.values()),
    }  # fmt: skip


def main():
    arguments, started = parsed(), time.monotonic()
    import kiln

    have = set()
    if arguments.rows.exists():
        have = {json.loads(line)["index"] for line in arguments.rows.read_text().splitlines()}
    calls = {i: product(arguments.seed, i) for i in range(arguments.calls) if i not in have}
    if arguments.list:
        listed(kiln, calls, arguments.seed)
        return
    import torch
    import torch_arrays

    def say(text):
        print(f"{time.monotonic() - started:.0f} s: {text}", file=sys.stderr, flush=True)

    places = torch_arrays.PlacedArrays(list(calls.values()), "cuda")
    candidates = Candidates(kiln, arguments.seed, lambda call: places.of(call)[0])
    configs = {index: [None, *candidates.of(call)] for index, call in calls.items()}
    wanted = [(index, config) for index, of in configs.items() for config in of]
    # Those that wait for one kernel are seldom neighbours then; defaults come first.
    random.Random(arguments.seed).shuffle(wanted)
    wanted.sort(key=lambda task: task[1] is not None)
    say(f"{len(wanted)} configs of {len(calls)} products planned")
    done = compiled(kiln, calls, wanted, arguments.compile_seconds)
    torch.cuda.empty_cache()
    say(f"{len(done)} of them compiled")
    measurement = Measurement(torch, kiln)
    with arguments.rows.open("a") as file:
        for index, call in calls.items():
            if time.monotonic() - started > arguments.seconds:
                break
            made = {config or "default": done[index, config] for config in configs[index] if (index, config) in done}
            ops = {name: op for name, op in made.items() if not isinstance(op, Exception)}
            failed = {name: str(op)[:150] for name, op in made.items() if isinstance(op, Exception)}
            if "default" not in ops:
                row = {"index": index, "call": str(call), "failed": failed}
            else:
                row = described(call, ops["default"].report)
                try:
                    row |= measurement.row(call, ops)
                except Exception as error:  # the other products still count
                    row["failed"] = {"": str(error)[:200]}
                if failed:
                    row.setdefault("failed", {}).update(failed)
            print(json.dumps(row), file=file, flush=True)
            torch.cuda.synchronize()  # raises where the GPU has faulted, which ends this process
            if torch.cuda.memory_reserved() > 20 << 30:
                torch.cuda.empty_cache()
            us = row.get("us", {})
            if {"torch", "default"} <= us.keys():
                best = min(us, key=lambda name: us[name] if name != "torch" else math.inf)
                speeds = ", ".join(f"{name} {us['torch'] / us[name]:.2f}" for name in ("default", best))
                wrong = f", {len(row['failed'])} FAILED" if "failed" in row else ""
                say(f"{call}: torch {us['torch']:.1f} us, {speeds} of {len(us)}{wrong}")
    say("done")


if __name__ == "__main__":
    main()
