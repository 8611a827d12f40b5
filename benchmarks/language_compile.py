#!/usr/bin/env python3
"""What the compiler takes for users' texts, beside the built-in product: milliseconds for sm_90a, ptxas included. Needs NVRTC and no GPU.

    benchmarks/language_compile.py build     one process's: a JSON object

`measured` runs that in processes of their own, each with an empty cache and in an order drawn anew.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from peer_speed import middle_mean
from sample_spread import spread_us

TARGET = "sm_90a"
BASE = "built-in matmul"
# Times the built-in product's.
MOST = {"matmul": 1.2, "attention": 3.0, "attention, causal": 3.0}


def calls():
    """{name: (op, tensors without data, attributes)}, with default configs."""
    import kiln
    from language_texts import text

    square, q = kiln.TensorMeta("bf16", (4096, 4096)), kiln.TensorMeta("bf16", (16, 4096, 128))
    return {
        BASE: ("matmul", [square, square], {}),
        "matmul": (text("matmul").matmul, [square, square], {}),
        "attention": (text("attention").attention, [q, q, q], {"causal": False}),
        "attention, causal": (text("attention").attention, [q, q, q], {"causal": True}),
    }


def of_this_process():
    import kiln

    chosen = list(calls().items())
    random.shuffle(chosen)
    kiln.inspect("neg", kiln.TensorMeta("f32", (4,)), emit="resources", target=TARGET)  # opens NVRTC
    times = {}
    for name, (op, tensors, attributes) in chosen:
        started = time.perf_counter()
        kiln.inspect(op, *tensors, emit="resources", target=TARGET, **attributes)
        times[name] = (time.perf_counter() - started) * 1e3
    return times


def rows_of(samples):
    """From milliseconds by name, one for each process."""
    rows = []
    for name, milliseconds in samples.items():
        row = {"case": f"compile {name}", **{key: 1e3 * of for key, of in spread_us(milliseconds).items()}}
        row["samples"] = len(milliseconds)
        if name in MOST:
            times = middle_mean(mine / base for mine, base in zip(milliseconds, samples[BASE]))
            row["times_of_built_in"] = times
            row["demands"] = {f"{MOST[name]:g} times": {"share": MOST[name] / times, "met": times <= MOST[name]}}
        rows.append(row)
    return rows


def measured(build, processes):
    samples = {}
    for _ in range(processes):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, str(build)]
            env = {**os.environ, "KILN_CACHE_DIR": cache}
            run = subprocess.run(command, env=env, capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip()[-500:])
        for name, milliseconds in json.loads(run.stdout).items():
            samples.setdefault(name, []).append(milliseconds)
    rows = rows_of({name: samples[name] for name in (BASE, *MOST)})
    for row in rows:
        times = f"  x{row['times_of_built_in']:.2f}" if "demands" in row else ""
        print(f"{row['case']:40} {row['median_us'] / 1e3:.0f} ms{times}", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]).resolve() / "python"))
    print(json.dumps(of_this_process()))
