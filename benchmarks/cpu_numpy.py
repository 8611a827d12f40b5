"""Ops on the CPU beside NumPy, which runs them on one thread. Prints a JSON list. KILN_NUM_THREADS sets Kiln's threads."""

import argparse
import os
import time

import numpy as np
import result_file
from kiln_library import Kiln
from sample_spread import spread_us


def numpy_softmax(x, out):
    np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=-1, keepdims=True), out=out)


def cases():
    """(name, op, output, input, attributes, NumPy's call)"""
    x = np.random.default_rng(7).standard_normal((4096, 4096), dtype=np.float32)
    out, row, one = np.empty_like(x), np.empty(4096, np.float32), np.empty((), np.float32)
    yield "sum of all", "sum", one, x, {}, lambda: np.sum(x, out=one)
    yield "sum over the last dim", "sum", row, x, {"dim": -1}, lambda: np.sum(x, axis=-1, out=row)
    yield "sum over the first dim", "sum", row, x, {"dim": 0}, lambda: np.sum(x, axis=0, out=row)
    yield "softmax", "softmax", out, x, {"dim": -1}, lambda: numpy_softmax(x, out)
    yield "transpose", "transpose", out, x, {}, lambda: np.copyto(out, x.T)


def median_us(calls, rounds):
    """Median times of calls that take turns."""
    samples = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, samples):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
    return [spread_us(times) for times in samples]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--config", help="of every op, instead of its default")
    parser.add_argument("--only", default="", help="run the cases whose name holds this text")
    arguments = parser.parse_args()
    kiln = Kiln(arguments.library)
    rows = []
    for name, op, out, x, attributes, call in cases():
        if arguments.only not in name:
            continue
        call()
        expected = out.copy()
        out.fill(np.nan)
        run = kiln.resolve(op, [out], [x], attributes, arguments.config)
        run()
        np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-2 if op == "sum" else 1e-7)
        ours, theirs = median_us([run, call], arguments.rounds)
        rows.append(
            {
                "case": f"{name} 4096^2 f32",
                "config": run.config,
                "samples": arguments.rounds,
                "threads": os.environ.get("KILN_NUM_THREADS", "default"),
                "kiln": ours,
                "numpy": theirs,
                "kiln_speed_over_numpy": theirs["median_us"] / ours["median_us"],
            }
        )
    result_file.emit(rows)


if __name__ == "__main__":
    main()
