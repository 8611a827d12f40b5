"""matmul and linear_relu in f32 on the CPU, beside OpenBLAS and NumPy with as many threads. Prints a JSON object.

OpenBLAS is the system's (Debian's libopenblas.so.0), called as cblas_sgemm; NumPy brings a BLAS of its own, which the result names. Inputs are drawn from a normal
distribution, results are compared with a double-precision product first, and the providers take turns in one process.
"""

import argparse
import ctypes
import json
import os
import statistics
import sys
import time

SHAPES = [(512, 512, 512), (1024, 1024, 1024), (1000, 333, 777)]  # m, n, k
# A BLAS's threads wait for more work spinning, on the cores that the next provider needs: OpenBLAS's still do after 60 ms, which halved what Kiln reached with two.
THREADS_AT_REST_S = 0.3


class OpenBlas:
    """cblas_sgemm of one library, found by name or path."""

    def __init__(self, path, threads):
        self.library = ctypes.CDLL(path)
        self.library.openblas_set_num_threads(threads)
        for text in (self.library.openblas_get_config, self.library.openblas_get_corename):
            text.restype = ctypes.c_char_p
        self.version = (
            f"{self.library.openblas_get_config().decode()} ({self.library.openblas_get_corename().decode()} kernels)"
        )

    def product(self, a, b, out):
        """A function that writes a @ b; b may be a transposed matrix."""
        row_major, plain, transposed = 101, 111, 112
        b_is_transposed = b.strides[0] < b.strides[1]
        stored = b.T if b_is_transposed else b
        m, n, k = out.shape[0], out.shape[1], a.shape[1]
        pointer, one = ctypes.c_void_p, ctypes.c_float(1)

        def run():
            self.library.cblas_sgemm(
                row_major,
                plain,
                transposed if b_is_transposed else plain,
                m,
                n,
                k,
                one,
                pointer(a.ctypes.data),
                k,
                pointer(stored.ctypes.data),
                stored.shape[1],
                ctypes.c_float(0),
                pointer(out.ctypes.data),
                n,
            )

        return run


def numpy_blas():
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas['version']}"


def numpy_linear_relu(product, bias, out):
    import numpy as np

    def run():
        product()
        np.add(out, bias, out=out)
        np.maximum(out, 0, out=out)

    return run


def cases(blas, m, n, k):
    """(name, Kiln's op, its inputs, output, double-precision result, {peer: call})"""
    import numpy as np

    random = np.random.default_rng(7)
    a, weight, bias = (random.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (n, k), (n,)))
    out = np.empty((m, n), np.float32)
    exact = a.astype(np.float64) @ weight.T.astype(np.float64)
    for layout, b in (("NN", np.ascontiguousarray(weight.T)), ("NT", weight.T)):
        peers = {"openblas": blas.product(a, b, out), "numpy": lambda b=b: np.matmul(a, b, out=out)}
        yield f"matmul {layout} {m}x{n}x{k}", "matmul", [a, b], out, exact, peers
    peers = {name: numpy_linear_relu(call, bias, out) for name, call in peers.items()}
    yield f"linear_relu {m}x{n}x{k}", "linear_relu", [a, weight, bias], out, np.maximum(exact + bias, 0), peers


def measure(providers, rounds):
    """Samples per provider: microseconds, and microseconds of processor time. One call wakes a provider's threads and brings back what others pushed out of the
    caches, the two after it count."""
    samples = {name: [] for name in providers}
    for _ in range(rounds):
        for name, call in providers.items():
            time.sleep(THREADS_AT_REST_S)
            call()
            for _ in range(2):
                started, started_cpu = time.perf_counter(), time.process_time()
                call()
                samples[name].append(((time.perf_counter() - started) * 1e6, (time.process_time() - started_cpu) * 1e6))
    return samples


def summary(samples, flops):
    """`cpu_us` is what one thread would take on a machine of its own; with more, OpenBLAS's spinning counts in it."""
    ordered, cpu_us = sorted(wall for wall, _ in samples), statistics.median(cpu for _, cpu in samples)
    median = statistics.median(ordered)
    return {
        "median_us": median,
        "p10_us": ordered[len(ordered) // 10],
        "p90_us": ordered[len(ordered) * 9 // 10],
        "cpu_us": cpu_us,
        "gflops": flops / median / 1e3,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument("--threads", type=int, default=1, help="of Kiln, OpenBLAS and NumPy alike")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--configs", nargs="*", default=[], help="also measure these configs of the chosen variant")
    parser.add_argument("--only", default="", help="run the cases whose name holds this text")
    parser.add_argument("--openblas", default="libopenblas.so.0", help="the library to compare with")
    arguments = parser.parse_args()
    # Read when the libraries are loaded. A machine may pin OpenBLAS to older kernels, for results that repeat elsewhere: here it is to choose for itself.
    for variable in ("KILN_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(variable, None)
    import numpy as np
    from kiln_library import Kiln

    kiln, blas = Kiln(arguments.library), OpenBlas(arguments.openblas, arguments.threads)
    rows = []
    for m, n, k in SHAPES:
        for name, op, inputs, out, exact, peers in cases(blas, m, n, k):
            if arguments.only not in name:
                continue
            run = kiln.resolve(op, [out], inputs)
            providers = {
                "kiln": run,
                **peers,
                **{f"kiln {c}": kiln.resolve(op, [out], inputs, config=c) for c in arguments.configs},
            }
            for call in providers.values():
                out.fill(np.nan)
                call()
                np.testing.assert_allclose(out, exact, rtol=1e-6, atol=2**-17 * k**0.5)
            samples = measure(providers, arguments.rounds)
            row = {
                "case": name,
                "op": op,
                "dtype": "float32",
                "config": run.config,
                **{p: summary(samples[p], run.flops) for p in providers},
            }
            row["kiln_speed_over_best_peer"] = min(row[p]["median_us"] for p in peers) / row["kiln"]["median_us"]
            if arguments.threads == 1:
                row["kiln_cpu_speed_over_best_peer"] = min(row[p]["cpu_us"] for p in peers) / row["kiln"]["cpu_us"]
            row["demanded"] = 1.0 if op == "linear_relu" else 0.8
            row["met"] = row["kiln_speed_over_best_peer"] >= row["demanded"]
            rows.append(row)
            rates = "  ".join(f"{p} {row[p]['gflops']:.0f}" for p in providers)
            by_cpu = f" (processor time x{row['kiln_cpu_speed_over_best_peer']:.3f})" if arguments.threads == 1 else ""
            print(
                f"{name:24} {rates}  x{row['kiln_speed_over_best_peer']:.3f}{by_cpu}  [{run.config}]",
                file=sys.stderr,
                flush=True,
            )
    json.dump(
        {"threads": arguments.threads, "openblas": blas.version, "numpy_blas": numpy_blas(), "rows": rows},
        sys.stdout,
        indent=1,
    )


if __name__ == "__main__":
    main()
