"""matmul and linear_relu in f32 on the CPU, beside OpenBLAS and NumPy with as many threads. Prints a JSON object.

OpenBLAS is the system's (Debian's libopenblas.so.0), called as cblas_sgemm; NumPy brings a BLAS of its own, which the result names. Inputs are drawn from a normal
distribution, results are compared with a double-precision product first, and the providers, a process each, take turns. "kiln_speed_over_best_peer" is the median of the rounds' ratios: a shared machine's speed
changes within a second, and alike for all.
"""

import argparse
import ctypes
import multiprocessing
import os
import statistics
import sys
import time

import result_file

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


class Call:
    """One case for one provider: its inputs, and a function that fills `out`."""

    def __init__(self, case):
        import numpy as np

        m, n, k = case["shape"]
        random = np.random.default_rng(7)
        self.a, self.weight, self.bias = (
            random.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (n, k), (n,))
        )
        self.b = np.ascontiguousarray(self.weight.T) if case["layout"] == "NN" else self.weight.T
        self.out = np.full((m, n), np.nan, np.float32)
        self.is_linear = case["op"] == "linear_relu"

    def check(self):
        import numpy as np

        exact = self.a.astype(np.float64) @ self.b.astype(np.float64)
        if self.is_linear:
            exact = np.maximum(exact + self.bias, 0)
        np.testing.assert_allclose(self.out, exact, rtol=1e-6, atol=2**-17 * self.a.shape[1] ** 0.5)

    def with_numpy_relu(self, product):
        import numpy as np

        def run():
            product()
            np.add(self.out, self.bias, out=self.out)
            np.maximum(self.out, 0, out=self.out)

        return run if self.is_linear else product


def kiln_calls(library, config=None):
    from kiln_library import Kiln

    kiln = Kiln(library)

    def make(call, case):
        inputs = [call.a, call.weight, call.bias] if call.is_linear else [call.a, call.b]
        return kiln.resolve(case["op"], [call.out], inputs, config=config)

    return make, ""


def openblas_calls(path, threads):
    blas = OpenBlas(path, threads)
    return lambda call, _: call.with_numpy_relu(blas.product(call.a, call.b, call.out)), blas.version


def numpy_calls():
    import numpy as np

    return lambda call, _: call.with_numpy_relu(lambda: np.matmul(call.a, call.b, out=call.out)), numpy_blas()


PROVIDERS = {"kiln": kiln_calls, "openblas": openblas_calls, "numpy": numpy_calls}


def provide(connection, kind, arguments):
    """A provider's process: the library, and nobody else's threads. Answers with its version, then to each case with its config, to each "turn" with samples."""
    try:
        make, version = PROVIDERS[kind](*arguments)
    except OSError as error:
        connection.send(error)
        return
    connection.send(version)
    run = None
    while (request := connection.recv()) is not None:
        if request == "turn":
            connection.send(samples_of(run))
            continue
        call = Call(request)
        run = make(call, request)
        run()
        call.check()
        connection.send((getattr(run, "config", None), getattr(run, "flops", None)))


def samples_of(run):
    """Microseconds, and microseconds of processor time. One call wakes a provider's threads and brings back what others pushed out of the caches, the two after it
    count."""
    run()
    samples = []
    for _ in range(2):
        started, started_cpu = time.perf_counter(), time.process_time()
        run()
        samples.append(((time.perf_counter() - started) * 1e6, (time.process_time() - started_cpu) * 1e6))
    return samples


class Provider:
    """A library in a process of its own: in one process, threads of three libraries wait for work on the same cores."""

    def __init__(self, kind, *arguments):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=provide, args=(theirs, kind, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.version = self.connection.recv()
        if isinstance(self.version, OSError):
            raise SystemExit(f"{kind}: {self.version}")

    def ask(self, request):
        self.connection.send(request)
        return self.connection.recv()

    def end(self):
        self.connection.send(None)
        self.process.join()


def cases():
    for m, n, k in SHAPES:
        for layout in ("NN", "NT"):
            yield {"case": f"matmul {layout} {m}x{n}x{k}", "op": "matmul", "shape": (m, n, k), "layout": layout}
        yield {"case": f"linear_relu {m}x{n}x{k}", "op": "linear_relu", "shape": (m, n, k), "layout": "NT"}


def measure(providers, rounds):
    samples = {name: [] for name in providers}
    for _ in range(rounds):
        for name, provider in providers.items():
            time.sleep(THREADS_AT_REST_S)
            samples[name] += provider.ask("turn")
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
    parser.add_argument(
        "--openblas-coretype", help="the kernels it is to use, like SkylakeX, where it does not know a newer processor"
    )
    arguments = parser.parse_args()
    # Read when the libraries are loaded. A machine may pin OpenBLAS to older kernels, for results that repeat elsewhere: here it is to choose for itself.
    for variable in ("KILN_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(variable, None)
    if arguments.openblas_coretype:
        os.environ["OPENBLAS_CORETYPE"] = arguments.openblas_coretype
    peers = ("openblas", "numpy")
    providers = {
        "kiln": Provider("kiln", arguments.library),
        "openblas": Provider("openblas", arguments.openblas, arguments.threads),
        "numpy": Provider("numpy"),
        **{f"kiln {config}": Provider("kiln", arguments.library, config) for config in arguments.configs},
    }
    if (arguments.openblas_coretype or "").lower() not in providers["openblas"].version.lower():
        raise SystemExit(f"OpenBLAS has no {arguments.openblas_coretype} kernels: {providers['openblas'].version}")
    rows = []
    for case in cases():
        if arguments.only not in case["case"]:
            continue
        (config, flops), *_ = [provider.ask(case) for provider in providers.values()]
        samples = measure(providers, arguments.rounds)
        row = {
            "case": case["case"],
            "op": case["op"],
            "dtype": "float32",
            "config": config,
            "samples": len(samples["kiln"]),
            **{p: summary(samples[p], flops) for p in providers},
        }
        ratios = [
            min(
                statistics.median(theirs[i] / ours[i] for theirs, ours in zip(samples[p], samples["kiln"]))
                for p in peers
            )
            for i in (0, 1)
        ]
        row["kiln_speed_over_best_peer"] = ratios[0]
        if arguments.threads == 1:
            row["kiln_cpu_speed_over_best_peer"] = ratios[1]
        row["demanded"] = 1.0 if case["op"] == "linear_relu" else 0.8
        row["met"] = row["kiln_speed_over_best_peer"] >= row["demanded"]
        rows.append(row)
        rates = "  ".join(f"{p} {row[p]['gflops']:.0f}" for p in providers)
        by_cpu = f" (processor time x{row['kiln_cpu_speed_over_best_peer']:.3f})" if arguments.threads == 1 else ""
        print(
            f"{case['case']:24} {rates}  x{row['kiln_speed_over_best_peer']:.3f}{by_cpu}  [{config}]",
            file=sys.stderr,
            flush=True,
        )
    for provider in providers.values():
        provider.end()
    result_file.emit(
        {
            "threads": arguments.threads,
            "openblas": providers["openblas"].version,
            "numpy_blas": providers["numpy"].version,
            "rows": rows,
        }
    )


if __name__ == "__main__":
    main()
