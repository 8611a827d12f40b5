"""A decode-like chain of 200 small calls: what the host pays for each, and what the whole chain takes, by dispatch, by resolved op and as graphs, beside torch.

    benchmarks/gpu_chain.py build/lib/libkiln_bench.so [--plot FILE.png]

The chain is 50 layers of rms_norm, linear_relu, add and kv_append in bf16. torch needs more kernels for it, which `torch_nodes` counts; times are for each of the chain's 200 calls, whoever makes them.
The second part asks how much a graph gains where kernels take longer: chains of additions of a tensor that fits the caches up to one that takes a millisecond, 200 of them, or 50 of the longest.
Rows of one case are measured in turns, in an order drawn anew for each round.
"""

import argparse
import ctypes
import pathlib
import random
import statistics
import sys
import time

import result_file
import torch
from kiln_library import Kiln

CALLS = 200
WIDTH, HEADS, PAGE, PAGES = 1024, 8, 16, 64
ROUNDS = 100
PROFILED_ROUNDS = 20
LONG_ELEMENTS, LONG_CALLS = 2**25, 50  # from here on a call takes so long that a chain of fewer is as good
DURATION_BUDGET_US = 1e6
MOST_OVER_HAND_GRAPH = 1.05
MOST_PROFILED_US = 1.0


class Chain:
    """Calls of libkiln_bench.so that are enqueued together, and the same with overlap_previous; the ways to do so return the host's microseconds."""

    def __init__(self, kiln, calls, overlapping, stream):
        self.kiln, self.calls, self.stream = kiln, (calls, overlapping), ctypes.c_void_p(stream.cuda_stream)
        self.handles, self.overlapping = (
            (ctypes.c_void_p * len(each))(*(call.handle for call in each)) for each in self.calls
        )
        library = kiln.library
        for name in ("dispatch", "resolved", "profiled"):
            getattr(library, f"kiln_bench_chain_{name}").restype = ctypes.c_double
        for kind in ("graph", "hand_graph"):
            getattr(library, f"kiln_bench_{kind}_launch").restype = ctypes.c_double
        self.graph = self.recorded("kiln_bench_chain_capture", self.handles)
        self.overlapping_graph = self.recorded("kiln_bench_chain_capture", self.overlapping)
        self.hand_graph = self.recorded("kiln_bench_hand_graph_new", self.handles)

    def recorded(self, function, handles):
        make = getattr(self.kiln.library, function)
        make.restype = ctypes.c_void_p
        graph = make(handles, len(handles), self.stream)
        self.kiln.check(not graph)
        return ctypes.c_void_p(graph)

    def timed(self, function, *arguments):
        us = getattr(self.kiln.library, function)(*arguments)
        self.kiln.check(us < 0)
        return us

    def ways(self):
        given = (len(self.handles), self.stream)
        return {
            "kiln dispatch": lambda: self.timed("kiln_bench_chain_dispatch", self.handles, *given),
            "kiln resolved": lambda: self.timed("kiln_bench_chain_resolved", self.handles, *given),
            "kiln resolved, overlapping": lambda: self.timed("kiln_bench_chain_resolved", self.overlapping, *given),
            "kiln graph": lambda: self.timed("kiln_bench_graph_launch", self.graph),
            "kiln graph, overlapping": lambda: self.timed("kiln_bench_graph_launch", self.overlapping_graph),
            "graph by hand": lambda: self.timed("kiln_bench_hand_graph_launch", self.hand_graph),
        }

    def after_a_chain(self, is_profiled):
        """The host's microseconds of resolved calls behind a chain and a wait, and a profiler's report."""
        report = ctypes.c_char_p()
        given = (self.handles, len(self.handles), self.stream, int(is_profiled), ctypes.byref(report))
        us = self.timed("kiln_bench_chain_profiled", *given)
        return us, (report.value or b"").decode()

    def free(self):
        torch.cuda.synchronize()
        for graph in (self.graph, self.overlapping_graph):
            self.kiln.library.kiln_bench_graph_free(graph)
        self.kiln.library.kiln_bench_hand_graph_free(self.hand_graph)


def captured_nodes(stream):
    """How many kernels, copies and fills are in the graph that the stream is being captured into."""
    driver = ctypes.CDLL("libcuda.so.1")
    status, graph, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t()
    handle = ctypes.c_void_p(stream.cuda_stream)
    failed = driver.cuStreamGetCaptureInfo_v2(
        handle, ctypes.byref(status), None, ctypes.byref(graph), None, None
    ) or driver.cuGraphGetNodes(graph, None, ctypes.byref(count))
    if failed:
        raise RuntimeError(f"the driver does not say what was captured: code {failed}")
    return count.value


def torch_ways(body, stream):
    """torch's own: `body` called, and captured by torch.cuda.graph; and how many nodes that graph has."""
    with torch.cuda.stream(stream):
        body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        body()
        nodes = captured_nodes(stream)

    def clocked(call):
        def run():
            with torch.cuda.stream(stream):
                started = time.perf_counter_ns()
                call()
                return (time.perf_counter_ns() - started) / 1e3

        return run

    return {"torch eager": clocked(body), "torch graph": clocked(graph.replay)}, nodes


def measured(ways, stream, calls, budget_us=None):
    """Of each way: the host's microseconds a call, and those of the whole chain from an idle device to an idle device. ROUNDS times, or in a budget at least 3 and at most 20."""
    host, whole = ({name: [] for name in ways} for _ in range(2))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    order, shuffle = list(ways), random.Random(7).shuffle
    torch.cuda.synchronize()
    started = time.perf_counter_ns()
    for way in ways.values():
        way()
    torch.cuda.synchronize()
    round_us = (time.perf_counter_ns() - started) / 1e3
    for _ in range(max(3, min(20, int(budget_us / round_us))) if budget_us else ROUNDS):
        shuffle(order)
        for name in order:
            torch.cuda.synchronize()
            events[0].record(stream)
            host[name].append(ways[name]() / calls)
            events[1].record(stream)
            torch.cuda.synchronize()
            whole[name].append(events[0].elapsed_time(events[1]) * 1e3 / calls)
    return {name: {"host_us": summary(host[name]), "whole_us": summary(whole[name])} for name in ways}


def summary(samples):
    ordered = sorted(samples)
    return {
        "median": statistics.median(ordered),
        "p10": ordered[len(ordered) // 10],
        "p90": ordered[len(ordered) * 9 // 10],
    }


def overlap_speed(row):
    """How much faster the whole chain is with overlap_previous."""
    return {
        way: row[way]["whole_us"]["median"] / row[f"{way}, overlapping"]["whole_us"]["median"]
        for way in ("kiln resolved", "kiln graph")
    }


def normal(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


class DecodeChain:
    """50 layers, each with its own weights and cache, so that no layer finds another's in the caches by chance."""

    def __init__(self, batch):
        self.layers = []
        x = normal(batch, WIDTH)
        self.first, self.batch = x, batch
        for _ in range(CALLS // 4):
            weight, matrix, bias = normal(WIDTH), normal(WIDTH, WIDTH) / WIDTH**0.5, normal(WIDTH)
            caches = [torch.zeros(PAGES, PAGE, HEADS, WIDTH // HEADS, device="cuda", dtype=x.dtype) for _ in range(2)]
            slots = torch.randperm(PAGES * PAGE, device="cuda")[:batch]
            normed, hidden, out = (torch.empty_like(x) for _ in range(3))
            self.layers.append((x, weight, matrix, bias, caches, slots, normed, hidden, out))
            x = out
        self.last = x

    def calls(self, kiln, overlap_previous):
        calls = []

        def resolve(*call):
            calls.append(kiln.resolve(*call, overlap_previous=overlap_previous))

        for x, weight, matrix, bias, caches, slots, normed, hidden, out in self.layers:
            rows = [tensor.view(self.batch, HEADS, -1) for tensor in (hidden, normed)]
            resolve("rms_norm", [normed], [x, weight], {"eps": 1e-5})
            resolve("linear_relu", [hidden], [normed, matrix, bias])
            resolve("add", [out], [x, hidden])
            resolve("kv_append", [], [*rows, *caches, slots])
        return calls

    def by_torch(self, results):
        """The same by torch; `results` takes the last output and the caches of the last layer."""
        x = self.first
        for layer, (_, weight, matrix, bias, _, slots, *_) in enumerate(self.layers):
            normed = torch.nn.functional.rms_norm(x, (WIDTH,), weight, 1e-5)
            hidden = torch._addmm_activation(bias, normed, matrix.t())
            x = x + hidden
            for cache, rows in zip(results["caches"][layer], (hidden, normed)):
                cache.view(PAGES * PAGE, HEADS, -1).index_copy_(0, slots, rows.view(self.batch, HEADS, -1))
        results["last"] = x


def decode_rows(kiln, stream):
    rows = []
    for batch in (1, 4, 16):
        model = DecodeChain(batch)
        results = {"caches": [[torch.zeros_like(cache) for cache in layer[4]] for layer in model.layers]}
        chain = Chain(kiln, model.calls(kiln, False), model.calls(kiln, True), stream)
        for way in chain.ways().values():  # each of them gives what torch gives
            for layer in model.layers:
                for tensor in (*layer[4], *layer[6:]):
                    tensor.zero_()
            torch.cuda.synchronize()
            way()
            torch.cuda.synchronize()
            model.by_torch(results)
            torch.testing.assert_close(model.last, results["last"], rtol=5e-2, atol=2e-1)
            for ours, theirs in zip(model.layers[-1][4], results["caches"][-1]):
                torch.testing.assert_close(ours, theirs, rtol=5e-2, atol=2e-1)
        by_torch, nodes = torch_ways(lambda: model.by_torch(results), stream)
        ways = {**chain.ways(), **by_torch}
        row = {"case": f"decode chain, batch {batch}", "calls": CALLS, "torch_nodes": nodes}
        row |= measured(ways, stream, CALLS)
        row["kiln_graph_over_hand_graph"] = (
            row["kiln graph"]["whole_us"]["median"] / row["graph by hand"]["whole_us"]["median"]
        )
        row["overlap_speed"] = overlap_speed(row)
        row["met"] = {"graph within 5% of one by hand": row["kiln_graph_over_hand_graph"] <= MOST_OVER_HAND_GRAPH}
        rows.append(row)
        print_row(row)
        chain.free()
    return rows


def profiler_row(kiln, stream):
    """What a profiler adds to each call. Comes last: once CUPTI was in a process, its launches cost more ("off_after_us")."""
    chain = Chain(kiln, *(DecodeChain(4).calls(kiln, overlap) for overlap in (False, True)), stream)
    row = {}
    for name, is_profiled in (("off_us", False), ("on_us", True), ("off_after_us", False)):
        times = [chain.after_a_chain(is_profiled) for _ in range(PROFILED_ROUNDS)]
        row[name] = summary([us / CALLS for us, _ in times])
        if is_profiled:
            print(times[-1][1], file=sys.stderr)
    chain.free()
    row["added_us"] = row["on_us"]["median"] - row["off_us"]["median"]
    row["met"] = {"profiler adds 1 us or less": row["added_us"] <= MOST_PROFILED_US}
    print(f"a profiler adds {row['added_us']:.2f} us to a call", file=sys.stderr, flush=True)
    return row


def duration_rows(kiln, stream):
    """Chains of additions, a kernel each on both sides (a copy would be a memcpy of torch's), that take from about 1 us to 1 ms. Of two tensors: reading one twice is a matter of caches."""
    rows = []
    for elements in [2**power for power in (*range(10, 29, 2), 29)]:
        x, y = (torch.randn(elements, device="cuda") for _ in range(2))
        out = torch.empty_like(x)
        calls = CALLS if elements < LONG_ELEMENTS else LONG_CALLS
        plain, overlapping = (
            [kiln.resolve("add", [out], [x, y], overlap_previous=overlap)] * calls for overlap in (False, True)
        )
        chain = Chain(kiln, plain, overlapping, stream)

        def body(x=x, y=y, out=out, calls=calls):
            for _ in range(calls):
                torch.add(x, y, out=out)

        by_torch, nodes = torch_ways(body, stream)
        ways = {**chain.ways(), **by_torch}
        row = {"case": f"add of {elements} f32", "elements": elements, "calls": calls, "torch_nodes": nodes}
        row |= measured(ways, stream, calls, DURATION_BUDGET_US)
        row["overlap_speed"] = overlap_speed(row)
        row["kernel_us"] = row["graph by hand"]["whole_us"]["median"]
        for name in ("kiln dispatch", "kiln resolved", "torch eager"):
            row[f"graph_speed_over_{name.replace(' ', '_')}"] = (
                row[name]["whole_us"]["median"] / row["kiln graph"]["whole_us"]["median"]
            )
        rows.append(row)
        print_row(row)
        chain.free()
    return rows


def print_row(row):
    ways = {name: value for name, value in row.items() if isinstance(value, dict) and "whole_us" in value}
    print(
        f"{row['case']:24} {row['calls']} calls ({row['torch_nodes']} nodes by torch) "
        + "  ".join(
            f"{name} {way['host_us']['median']:.2f}/{way['whole_us']['median']:.2f}" for name, way in ways.items()
        ),
        file=sys.stderr,
        flush=True,
    )


def plot(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, marker in (("kiln_dispatch", "o"), ("kiln_resolved", "s"), ("torch_eager", "^")):
        axes.plot(
            [row["kernel_us"] for row in rows],
            [row[f"graph_speed_over_{name}"] for row in rows],
            marker=marker,
            label=f"over {name.replace('_', ' ')}",
        )
    axes.set_xscale("log")
    axes.set_xlabel("a kernel's duration in the graph, us")
    axes.set_ylabel("speed of the graph's replay")
    axes.axhline(1, color="gray", linewidth=0.8)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument("--plot", type=pathlib.Path, help="draw the gain of graphs over the kernels' duration")
    arguments = parser.parse_args()
    torch.manual_seed(7)
    stream = torch.cuda.Stream()
    kiln = Kiln(arguments.library, stream.cuda_stream)
    with torch.no_grad():
        result = {"decode": decode_rows(kiln, stream), "durations": duration_rows(kiln, stream)}
        result["profiler"] = profiler_row(kiln, stream)
    result_file.emit(result)
    if arguments.plot:
        plot(result["durations"], arguments.plot)


if __name__ == "__main__":
    main()
