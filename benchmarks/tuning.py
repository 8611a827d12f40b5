"""What `kiln tune` finds, how long it takes, and whether the choice holds when measured afresh. Prints a JSON object.

    benchmarks/tuning.py BUILD cpu      each call tuned by a process of its own, then the tuned config beside the default in turns (`kiln bench --against default`)
    benchmarks/tuning.py BUILD gpu      matmul's shapes, searched exhaustively as well; one of them tuned again and again; other ops. Then configs side by side, through torch

Everything starts with an empty cache. On a GPU configs take turns in one process as in the other benchmarks (gpu_timing.py), and are loaded anew several times. A section
that fails says so in its place. Needs torch for the GPU, and there about 300 s with the budgets below.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import result_file

CPU_CALLS = {
    "matmul f32 512^3": ["matmul", "--shape", "512x512", "--shape", "512x512"],
    "sum f32 2^24": ["sum", "--shape", str(1 << 24)],
    "transpose f32 2048^2": ["transpose", "--shape", "2048x2048"],
}
# m, n, k, batches of the products that gpu_matmul.py measures
MATMUL_SHAPES = {
    "512^3": (512, 512, 512, 0),
    "1024^3": (1024, 1024, 1024, 0),
    "2048^3": (2048, 2048, 2048, 0),
    "4096^3": (4096, 4096, 4096, 0),
    "8192^3": (8192, 8192, 8192, 0),
    "4096x7168x2048": (4096, 7168, 2048, 0),
    "16x4096x4096": (16, 4096, 4096, 0),
    "128x7168x2048": (128, 7168, 2048, 0),
    "128x4096x7168": (128, 4096, 7168, 0),
    "1000^3": (1000, 1000, 1000, 0),
    "4095x4097x4093": (4095, 4097, 4093, 0),
    "64x512^3": (512, 512, 512, 64),
}
REPEATED_SHAPE = "2048^3"
REPEATS = 20
BESIDE = 10  # configs that meet again side by side
# A sample of a call of a few microseconds is off by half of one. Rounds bring the error of a mean to a quarter of a percent; where a copy of a kernel lies in memory
# is worth as much as two configs differ by, so that each config is loaded anew that many times.
SAMPLE_ERROR_US, MEAN_ERROR = 0.5, 0.0025
FEWEST_ROUNDS, MOST_ROUNDS = 64, 800
PLACES = 8
T_95 = 2.365  # of Student's distribution, for the mean of PLACES numbers
LONG_SEARCHES = {"sum f32 2^24", "softmax bf16 8192x4096"}  # spaces that no budget of seconds sees much of


def say(text):
    print(text, file=sys.stderr, flush=True)


def text_of(config):
    return " ".join(f"{name}={value}" for name, value in config.items())


def mean_and_interval(values):
    mean, error = statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5
    return mean, [mean - T_95 * error, mean + T_95 * error]


class Tuner:
    """The `kiln` of a build, with a cache of its own."""

    def __init__(self, build, device, cache):
        self.kiln, self.device = build / "bin" / "kiln", device
        os.environ["KILN_CACHE_DIR"] = cache  # this process's own Kiln finds the same artifacts
        os.environ.pop("KILN_TUNING", None)

    def json_of(self, *arguments):
        process = subprocess.run(
            [self.kiln, *arguments, "--device", self.device, "--json"], capture_output=True, text=True
        )
        if process.returncode != 0:
            raise RuntimeError(f"kiln {' '.join(arguments)}: exit {process.returncode}: {process.stderr[-1000:]}")
        return json.loads(process.stdout)

    def tune(self, *arguments, budget_s):
        """What is worth keeping of the report of one call, and under "ranking" the configs with a time, best first."""
        started = time.monotonic()
        report = self.json_of("tune", *arguments, "--budget", f"{budget_s}s")[0]
        outcomes = collections.Counter(tried["outcome"] for tried in report["tried"])
        timed = [tried for tried in report["tried"] if "median_us" in tried]
        return {
            "process_s": time.monotonic() - started,
            "variant": report["variant"],
            "configs": report["candidates"],
            "valid_configs": report["candidates"] - outcomes["ruled_out"],
            "timed_configs": len(timed),
            "complete": report["complete"],
            "samples": report["samples"],
            "config": text_of(report["config"]),
            "default_config": text_of(report["default_config"]),
            "time_over_default": report["relative"],
            "ranking": [text_of(tried["config"]) for tried in timed],
        }


class Report:
    def __init__(self, only, limit_s):
        self.only, self.limit_s, self.sections, self.failed, self.started = only, limit_s, {}, False, time.monotonic()

    def is_over(self):
        return time.monotonic() - self.started > self.limit_s

    def add(self, section, name, measure):
        """A row, unless --only leaves it out. Returns it when it was measured."""
        if self.only not in f"{section}: {name}":
            return None
        if self.is_over():
            say(f"{section}: {name}: left out, the time is over")
            return None
        row = {"case": name}
        self.sections.setdefault(section, []).append(row)
        try:
            row.update(measure())
        except (RuntimeError, AssertionError, KeyError) as error:
            row["failed"] = str(error)
            self.failed = True
        say(f"{time.monotonic() - self.started:6.1f} s  {section}: {name}: {row.get('failed') or row['summary']}")
        return None if "failed" in row else row


def cpu_row(tuner, arguments, budget_s):
    row = tuner.tune(*arguments, budget_s=budget_s)
    del row["ranking"]
    bench = tuner.json_of("bench", *arguments, "--against", "default", "--budget", "10s")
    row["afresh"] = {
        contender["name"]: {"median_us": contender["median_us"], "interval_us": contender["interval_us"]}
        for contender in bench["contenders"]
    }
    row["gain"], row["gain_interval"] = bench["speedup"]["median"], bench["speedup"]["interval"]
    low, high = row["gain_interval"]
    row["summary"] = f"{progress_of(row)}, x{row['gain']:.3f} ({low:.3f} to {high:.3f})"
    return row


def cpu_report(build, report, budget_s):
    with tempfile.TemporaryDirectory() as cache:
        tuner = Tuner(build, "cpu", cache)
        for name, arguments in CPU_CALLS.items():
            report.add("cpu", name, lambda: cpu_row(tuner, arguments, budget_s))


class Gpu:
    """Configs of a call side by side, in this process."""

    def __init__(self, build):
        import torch
        from kiln_library import Kiln

        self.torch = torch
        torch.manual_seed(7)
        self.kiln = Kiln(build / "lib" / "libkiln_bench.so", torch.cuda.current_stream().cuda_stream)
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def beside(self, op, outputs, inputs, attributes, configs):
        """By config, the mean microseconds at each of PLACES: what all configs took in turns after they had been loaded anew."""
        from gpu_timing import measure, middle_mean

        runs = {config: self.kiln.resolve(op, outputs, inputs, attributes, config) for config in dict.fromkeys(configs)}
        shortest_us = min(statistics.median(times) for times in measure(runs, 9, self.flush).values())
        rounds = min(max((SAMPLE_ERROR_US / (MEAN_ERROR * shortest_us)) ** 2, FEWEST_ROUNDS), MOST_ROUNDS)
        means = {config: [] for config in runs}
        for _ in range(PLACES):
            loading = list(runs.values())
            random.shuffle(loading)
            for run in loading:
                run.load_anew()
            for config, times in measure(runs, math.ceil(rounds / PLACES), self.flush).items():
                means[config].append(middle_mean(times))
        return means

    def empty(self, *shape, dtype=None):
        return self.torch.empty(shape, device="cuda", dtype=dtype or self.torch.bfloat16)

    def normal(self, *shape, dtype=None):
        return self.torch.randn(shape, device="cuda").to(dtype or self.torch.bfloat16)


def add_gain(row, means):
    default, tuned = means[row["default_config"]], means[row["config"]]
    row["gain"], row["gain_interval"] = mean_and_interval([d / t for d, t in zip(default, tuned)])
    row["mean_us"] = {"default": statistics.fmean(default), "tuned": statistics.fmean(tuned)}
    return f"x{row['gain']:.3f}"


def add_best(row, means):
    """How the chosen config stands to the fastest one that met it. Which one that is the even places say for the odd ones, and the other way round: the luckiest of a dozen
    would look a percent faster than it is."""
    best = [min(means, key=lambda config: statistics.fmean(means[config][parity::2])) for parity in (0, 1)]
    ratios = [means[row["config"]][place] / means[best[1 - place % 2]][place] for place in range(PLACES)]
    row["best_beside"] = min(means, key=lambda config: statistics.fmean(means[config]))
    row["time_over_best"], row["time_over_best_interval"] = mean_and_interval(ratios)
    low, high = row["time_over_best_interval"]
    return f"{100 * (row['time_over_best'] - 1):+.1f}% ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f}) to the best of {len(means)}"


def progress_of(row):
    return f"{row['process_s']:.1f} s, {row['timed_configs']} of {row['valid_configs']} valid configs timed{'' if row['complete'] else ' (stopped)'}"


def matmul_arguments(m, n, k, batches):
    batch = f"{batches}x" if batches else ""
    return ["matmul", "--shape", f"{batch}{m}x{k}", "--shape", f"{batch}{k}x{n}", "--dtype", "bf16"]


class MatmulCall:
    def __init__(self, gpu, m, n, k, batches):
        batch = (batches,) if batches else ()
        self.gpu, self.inputs, self.out = (
            gpu,
            [gpu.normal(*batch, m, k), gpu.normal(*batch, k, n)],
            gpu.empty(*batch, m, n),
        )

    def beside(self, configs):
        return self.gpu.beside("matmul", [self.out], self.inputs, None, configs)


def matmul_row(gpu, tuner, shape, budget_s, exhaustive_budget_s):
    """An exhaustive search, which compiles every config, then the search that is made by default; the choice of the second beside the best of both."""
    arguments = matmul_arguments(*shape)
    exhaustive = tuner.tune(*arguments, "--strategy", "exhaustive", budget_s=exhaustive_budget_s)
    row = tuner.tune(*arguments, "--retune", budget_s=budget_s)
    row["ranking"] = list(dict.fromkeys([*exhaustive.pop("ranking")[:BESIDE], *row["ranking"][: BESIDE // 2]]))
    row["exhaustive"] = exhaustive
    times = MatmulCall(gpu, *shape).beside([row["config"], row["default_config"], *row["ranking"]])
    row["summary"] = (
        f"{progress_of(row)}, exhaustive {progress_of(exhaustive)}, {add_gain(row, times)}, {add_best(row, times)} [{row['config']}]"
    )
    return row


def repeated_row(gpu, tuner, report, budget_s, beside=()):
    shape, rows = MATMUL_SHAPES[REPEATED_SHAPE], []
    while len(rows) < REPEATS and not report.is_over():
        rows.append(tuner.tune(*matmul_arguments(*shape), "--retune", "--seed", str(len(rows)), budget_s=budget_s))
    counts = collections.Counter(row["config"] for row in rows)
    means = {
        config: statistics.fmean(values)
        for config, values in MatmulCall(gpu, *shape).beside([*counts, *beside]).items()
    }
    chosen = [means[config] for config in counts]
    spread = max(chosen) / min(chosen) - 1
    return {
        "chosen": [
            {"config": config, "times": count, "mean_us": means[config]} for config, count in counts.most_common()
        ],
        "timed_configs": [row["timed_configs"] for row in rows],
        "process_s": [row["process_s"] for row in rows],
        "spread": spread,
        "worst_over_best_beside": max(chosen) / min(means.values()),
        "summary": f"{len(counts)} choices in {len(rows)} tunings, {100 * spread:.1f}% apart, worst {100 * (max(chosen) / min(means.values()) - 1):.1f}% behind the best known",
    }


def op_calls(gpu):
    """name -> arguments of kiln tune, op, outputs, inputs, attributes."""
    bf16, f32 = gpu.torch.bfloat16, gpu.torch.float32
    return {
        "add bf16 4096^2": (
            ["add", "--shape", "4096x4096", "--dtype", "bf16"],
            lambda: ("add", [gpu.empty(4096, 4096)], [gpu.normal(4096, 4096), gpu.normal(4096, 4096)], None),
        ),
        "sum f32 2^24": (
            ["sum", "--shape", str(1 << 24)],
            lambda: ("sum", [gpu.empty(dtype=f32)], [gpu.normal(1 << 24, dtype=f32)], None),
        ),
        "sum bf16 8192x4096, last dim": (
            ["sum", "--shape", "8192x4096", "--dtype", "bf16", "--attr", "dim=-1"],
            lambda: ("sum", [gpu.empty(8192)], [gpu.normal(8192, 4096)], {"dim": -1}),
        ),
        "softmax bf16 8192x4096": (
            ["softmax", "--shape", "8192x4096", "--dtype", "bf16", "--attr", "dim=-1"],
            lambda: ("softmax", [gpu.empty(8192, 4096)], [gpu.normal(8192, 4096)], {"dim": -1}),
        ),
        "transpose f32 4096^2": (
            ["transpose", "--shape", "4096x4096"],
            lambda: ("transpose", [gpu.empty(4096, 4096, dtype=f32)], [gpu.normal(4096, 4096, dtype=f32)], None),
        ),
        "transpose bf16 10007x9973": (
            ["transpose", "--shape", "10007x9973", "--dtype", "bf16"],
            lambda: ("transpose", [gpu.empty(9973, 10007, dtype=bf16)], [gpu.normal(10007, 9973)], None),
        ),
    }


def op_row(gpu, tuner, arguments, call, budget_s, long_budget_s=None):
    """With `long_budget_s` a longer search from another seed as well, whose best meet the choice."""
    row = tuner.tune(*arguments, budget_s=budget_s)
    beside = [row["config"], row["default_config"], *row.pop("ranking")[: BESIDE // 2]]
    searched = ""
    if long_budget_s is not None:
        row["long"] = tuner.tune(*arguments, "--retune", "--seed", "1", budget_s=long_budget_s)
        beside += row["long"].pop("ranking")[: BESIDE // 2]
        searched = f", longer search {progress_of(row['long'])}"
    times = gpu.beside(*call(), beside)
    row["summary"] = f"{progress_of(row)}{searched}, {add_gain(row, times)}, {add_best(row, times)} [{row['config']}]"
    return row


def gather_row(gpu, tuner, folder, budget_s):
    """128 requests of 2048 rows of 656 bytes from 188 MiB of pinned host memory: only a trace can say where a tensor lies."""
    torch, pairs, rows, row_bytes = gpu.torch, 128 * 2048, 300_000, 656
    trace = pathlib.Path(folder) / "gather.jsonl"
    tensor = lambda dtype, *shape: {"dtype": dtype, "shape": shape}
    trace.write_text(
        json.dumps(
            {
                "op": "sparse_kv_gather",
                "device": "cuda",
                "attributes": {},
                "inputs": [
                    tensor("u8", pairs, row_bytes),
                    {**tensor("u8", rows, row_bytes), "pinned": True},
                    tensor("i32", 128, 2048, 2),
                ],
            }
        )
        + "\n"
    )

    def call():
        source = torch.randint(256, (rows, row_bytes), dtype=torch.uint8).pin_memory()
        indices = torch.stack(
            [torch.randperm(rows, device="cuda")[:pairs], torch.randperm(pairs, device="cuda")], dim=1
        ).int()
        return (
            "sparse_kv_gather",
            [],
            [gpu.empty(pairs, row_bytes, dtype=torch.uint8), source, indices.view(128, 2048, 2)],
            None,
        )

    return op_row(gpu, tuner, ["--from-trace", str(trace)], call, budget_s)


def gpu_report(build, report, arguments):
    with tempfile.TemporaryDirectory() as cache:
        gpu, tuner = Gpu(build), Tuner(build, "cuda:0", cache)
        budget_s, best = arguments.budget or 10, []
        for name, shape in MATMUL_SHAPES.items():
            row = report.add(
                "matmul", name, lambda: matmul_row(gpu, tuner, shape, budget_s, arguments.exhaustive_budget)
            )
            if row and name == REPEATED_SHAPE:
                best = row["ranking"]
        report.add("repeated", REPEATED_SHAPE, lambda: repeated_row(gpu, tuner, report, arguments.repeat_budget, best))
        for name, (words, call) in op_calls(gpu).items():
            long_budget_s = arguments.long_budget if name in LONG_SEARCHES else None
            report.add("ops", name, lambda: op_row(gpu, tuner, words, call, budget_s, long_budget_s))
        report.add(
            "ops", "sparse_kv_gather 128x2048 rows of 656 bytes", lambda: gather_row(gpu, tuner, cache, budget_s)
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="folder of a finished build")
    parser.add_argument("device", choices=["cpu", "gpu"])
    parser.add_argument(
        "--only",
        default="",
        help='measure what holds this text, of "SECTION: CASE"; sections are cpu, matmul, repeated and ops',
    )
    parser.add_argument("--budget", type=float, help="seconds for a call (default: 45 on the CPU, 10 on a GPU)")
    parser.add_argument(
        "--exhaustive-budget", type=float, default=30, help="seconds for an exhaustive search (default 30)"
    )
    parser.add_argument(
        "--long-budget", type=float, default=30, help="seconds for the longer search of a large space (default 30)"
    )
    parser.add_argument(
        "--repeat-budget", type=float, default=2, help="seconds for each of the repeated tunings (default 2)"
    )
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="no case begins later than so many seconds after the start"
    )
    arguments = parser.parse_args()
    build, report = arguments.build.resolve(), Report(arguments.only, arguments.limit)
    if arguments.device == "cpu":
        cpu_report(build, report, arguments.budget or 45)
    else:
        gpu_report(build, report, arguments)
    result_file.emit({**report.sections, "seconds": time.monotonic() - report.started})
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
