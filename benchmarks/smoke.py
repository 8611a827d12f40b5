"""What of the benchmarks can be tried with no GPU: that the scripts parse, and that ops and pipelines run on the CPU through libkiln_bench.so.

usage: smoke.py path/to/libkiln_bench.so
"""

import ast
import ctypes
import pathlib
import sys

import numpy as np
from kiln_library import Kiln, OffloadPipeline

HERE = pathlib.Path(__file__).parent


def try_gather(kiln):
    random = np.random.default_rng(7)
    src = random.integers(0, 256, (1000, 656), dtype=np.uint8)
    dst, slots = np.full((70, 656), 0xA5, np.uint8), np.full(1000, -1, np.int32)
    pairs = np.stack([random.permutation(1000)[:64], random.permutation(70)[:64]], axis=1).astype(np.int32)
    expected, expected_slots = dst.copy(), slots.copy()
    expected[pairs[:, 1]] = src[pairs[:, 0]]
    expected_slots[pairs[:, 0]] = pairs[:, 1]
    kiln.resolve("sparse_kv_gather", [], [dst, src, pairs.reshape(4, 16, 2), None, slots])()
    assert np.array_equal(dst, expected) and np.array_equal(slots, expected_slots), "sparse_kv_gather: rows differ"


def try_pipeline(kiln):
    random = np.random.default_rng(7)
    loads = [random.random((100, 7), dtype=np.float32) for _ in range(30)]
    stores = [np.zeros_like(load) for load in loads]

    def double(_, source, target, __):
        size = loads[0].nbytes
        values = np.frombuffer((ctypes.c_char * size).from_address(source), np.float32)
        np.multiply(values, 2, out=np.frombuffer((ctypes.c_char * size).from_address(target), np.float32))

    def fail(*_):
        raise KeyError("on purpose")

    pipeline = OffloadPipeline(kiln, 2)
    try:
        pipeline.run(loads, stores, fail)
    except KeyError:
        pass
    else:
        raise AssertionError("an error in a chunk's work was lost")
    pipeline.run(loads, stores, double)
    assert all(np.array_equal(2 * load, store) for load, store in zip(loads, stores)), "OffloadPipeline: layers differ"


def try_chain(kiln):
    """A chain of calls by dispatch, by resolved op, as a graph and under the profiler gives the same."""
    x, steps = np.random.default_rng(7).random(1000, dtype=np.float32), []
    for _ in range(5):
        steps.append(np.empty_like(x))
    calls = [kiln.resolve("add", [out], [source, x]) for source, out in zip([x, *steps], steps)]
    chain = (ctypes.c_void_p * len(calls))(*(call.handle for call in calls)), len(calls), None
    capture, report = kiln.library.kiln_bench_chain_capture, ctypes.c_char_p()
    capture.restype = ctypes.c_void_p
    for name in ("chain_dispatch", "chain_resolved", "chain_profiled", "graph_launch"):
        getattr(kiln.library, f"kiln_bench_{name}").restype = ctypes.c_double
    graph = ctypes.c_void_p(capture(*chain))
    kiln.check(not graph)
    for enqueue in (
        lambda: kiln.library.kiln_bench_chain_dispatch(*chain),
        lambda: kiln.library.kiln_bench_chain_resolved(*chain),
        lambda: kiln.library.kiln_bench_graph_launch(graph),
        lambda: kiln.library.kiln_bench_chain_profiled(*chain, 1, ctypes.byref(report)),
    ):
        for out in steps:
            out.fill(np.nan)
        kiln.check(enqueue() < 0)
        assert np.allclose(steps[-1], 6 * x), "a chain's result differs"
    assert b"add" in report.value, report.value
    kiln.library.kiln_bench_graph_free(graph)


def try_series(kiln):
    kiln.register_kv_series()
    rows, pairs = np.zeros((4, 16), np.uint8), np.zeros((2, 2), np.int32)
    try:
        kiln.resolve("benchmark_kv_series", [], [rows, rows.copy(), pairs])
    except RuntimeError as error:
        assert "no kernel that serves this call on cpu" in str(error), error
    else:
        raise AssertionError("the series' kernels are CUDA's")


def main():
    for script in [*HERE.glob("*.py"), HERE / "run"]:
        ast.parse(script.read_text(), script.name)
    kiln = Kiln(sys.argv[1])
    try_gather(kiln)
    try_pipeline(kiln)
    try_chain(kiln)
    try_series(kiln)


if __name__ == "__main__":
    main()
