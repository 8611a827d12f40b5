"""Small calls on the CPU: what a warm call from Python costs beside NumPy's, and calls alone, after a pause, and right after one of NumPy's products.

    PYTHONPATH=build/python python benchmarks/cpu_small_calls.py [--seconds S]

Prints a JSON object. KILN_NUM_THREADS sets Kiln's threads. NumPy's BLAS has threads of its own, which spin for some 25 ms after a product.
"""

import argparse
import os
import statistics
import time
import timeit

import kiln
import numpy as np
import result_file
from sample_spread import spread_us


def warm_calls(seconds):
    """Arrays of 16 floats, 4 x 4 for products; all calls in turns."""
    a = np.random.default_rng(7).standard_normal(16, dtype=np.float32)
    b, out, m, m_out = a.copy(), np.empty_like(a), a.reshape(4, 4), np.empty((4, 4), np.float32)
    names = {
        "add": kiln.ops.add,
        "matmul": kiln.ops.matmul,
        "dispatch": kiln.dispatch_gpu_op,
        "resolved": kiln.resolve("add", a, b, out=out),
        "np": np,
        **{"a": a, "b": b, "out": out, "m": m, "m_out": m_out},
    }
    calls = (
        "np.add(a, b, out=out)",
        "np.add(a, b)",
        "add(a, b, out=out)",
        "add(a, b)",
        "dispatch('add', a, b, out=out)",
        "resolved(a, b, out=out)",
        "resolved(a, b)",
        "np.matmul(m, m)",
        "matmul(m, m)",
        "matmul(m, m, out=m_out)",
    )
    timers = [timeit.Timer(call, globals=names) for call in calls]
    samples = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for timer, times in zip(timers, samples):
            times.append(timer.timeit(1000) * 1e3)
    return [{"call": call, **spread_us(times)} for call, times in zip(calls, samples)]


def timed_us(call):
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


def after_products(seconds):
    """gelu, and NumPy's exp for what a product's cold caches cost anybody."""
    random = np.random.default_rng(7)
    p = random.standard_normal((512, 512), dtype=np.float32)
    product = np.empty_like(p)
    rows = []
    for elements in (1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 17, 1 << 18, 1 << 20):
        x = random.standard_normal(elements, dtype=np.float32)
        out = np.empty_like(x)
        for name, call in (
            ("kiln gelu", lambda: kiln.ops.gelu(x, out=out)),
            ("numpy exp", lambda: np.exp(x, out=out)),
        ):
            alone, paused, after = [], [], []
            call()
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                time.sleep(0.04)  # everybody's threads fall asleep
                paused.append(timed_us(call))
                for _ in range(8):
                    call()  # and are awake again
                alone.extend(timed_us(call) for _ in range(5))
                for _ in range(5):
                    np.matmul(p, p, out=product)
                    after.append(timed_us(call))
            ratio = statistics.median(after) / statistics.median(alone)
            rows.append(
                {
                    "call": name,
                    "elements": elements,
                    "alone": spread_us(alone),
                    "after_40_ms": spread_us(paused),
                    "after_product": spread_us(after),
                    "after_product_over_alone": ratio,
                }
            )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case")
    seconds = parser.parse_args().seconds
    result_file.emit(
        {
            "threads": os.environ.get("KILN_NUM_THREADS", "default"),
            "warm": warm_calls(5 * seconds),
            "after_products": after_products(seconds),
        }
    )


if __name__ == "__main__":
    main()
