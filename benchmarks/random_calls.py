#!/usr/bin/env python3
"""Random calls of ops on the CPU, Kiln's time beside NumPy's.

    PYTHONPATH=build/python .venv/bin/python benchmarks/random_calls.py SEED [--calls 300] [--threads 1] [--rows FILE.jsonl] > result.json

A call is drawn from the seed, its family and its number: op, shapes (log-uniform, odd ones too), dtype, layout. Each library runs in a process of its own, pinned to as many CPUs as it has threads, and makes the
same call over the same values, as a user makes it, with `out` wherever NumPy takes one; both results are compared with one in f64. They take turns within each call. stdout is a result in the project's form
(result_file.py), stderr the summary. With --rows each row is also kept as it is measured, and a later run with the same seed, threads and features goes on from there.
"""

import argparse
import contextlib
import datetime
import fnmatch
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import call_report
import result_file
from drawn_call import FAMILIES, DrawnInput, Draw, draw_call
from library_worker import Worker, WorkerError

TURN_S = 0.07  # of samples of one library before the other's turn
# Of a processor that these names stand for: OpenBLAS's kernels, and NumPy's groups of instructions that it lacks.
CPU_FEATURES = {"x86-64-v3": ("Haswell", ("X86_V4", "AVX512"))}


def say(text):
    print(text, file=sys.stderr, flush=True)


def arguments_of(command_line):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--calls", type=int, default=300, help="of each family (300)")
    parser.add_argument("--family", choices=FAMILIES, help="only this one")
    parser.add_argument(
        "--only",
        default="*",
        metavar="GLOB",
        help="only calls whose name or text matches: other/17, 'matmul TN*', '*f64*'",
    )
    parser.add_argument("--list", action="store_true", help="print the calls, and run none")
    parser.add_argument("--threads", type=int, default=1, help="of each library, and CPUs that it may use (1)")
    parser.add_argument(
        "--cpu-features", choices=sorted(CPU_FEATURES), help="both libraries pretend to be on such a processor"
    )
    parser.add_argument("--tuned", type=int, default=0, metavar="N", help="tune the first N calls of each family too")
    parser.add_argument("--tuning-budget", type=float, default=5, metavar="SECONDS", help="of each of them (5)")
    parser.add_argument(
        "--rows",
        "--resume",
        type=pathlib.Path,
        metavar="FILE",
        help="rows as they are measured; those that it has are not measured again",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="begin no call after so long; the rest is for a later run with the same --rows",
    )
    arguments = parser.parse_args(command_line)
    usable = len(os.sched_getaffinity(0))
    if arguments.calls < 1:
        parser.error(f"--calls {arguments.calls}: at least 1")
    if not 1 <= arguments.threads <= usable:
        parser.error(f"--threads {arguments.threads}: 1 to {usable}, the CPUs that this process may use")
    return parser, arguments


def chosen_calls(arguments):
    families = [arguments.family] if arguments.family else FAMILIES
    calls = [draw_call(arguments.seed, family, index) for index in range(arguments.calls) for family in families]
    return [
        call
        for call in calls
        if any(fnmatch.fnmatch(text, arguments.only) for text in (call.name, f"{call.kind} {call}", str(call)))
    ]


def numpy_features_beyond(lacking):
    """Of what this NumPy chooses at run time, and finds here, what a processor without `lacking` has not; its variable takes no names that it does not have."""
    text = "from numpy._core import _multiarray_umath as m; print(*(n for n in m.__cpu_dispatch__ if m.__cpu_features__[n]))"
    names = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    return " ".join(name for name in names if name.startswith(lacking))


def environment_of(arguments, cache):
    """The workers' variables. A machine may pin OpenBLAS to older kernels, for results that repeat elsewhere: here it is to choose for itself."""
    environment = {
        name: str(arguments.threads) for name in ("KILN_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    }
    environment |= {
        "OPENBLAS_CORETYPE": None,
        "OPENBLAS_L2_SIZE": None,
        "KILN_TUNING": "use" if arguments.tuned else "off",
        "KILN_CACHE_DIR": cache,
    }
    if arguments.cpu_features:
        coretype, lacking = CPU_FEATURES[arguments.cpu_features]
        environment |= {
            "KILN_CPU_FEATURES": arguments.cpu_features,
            "OPENBLAS_CORETYPE": coretype,
            "NPY_DISABLE_CPU_FEATURES": numpy_features_beyond(lacking),
        }
    return environment


def timed(samples):
    ordered = sorted(samples)
    return {
        "median_us": statistics.median(ordered),
        "p10_us": ordered[len(ordered) // 10],
        "p90_us": ordered[len(ordered) * 9 // 10],
    }


class Measurement:
    """The two workers and what both reach at most."""

    def __init__(self, environment, folder):
        self.kiln, self.peer = (
            Worker(kind, {**environment, **own})
            for kind, own in (("kiln", {"OPENBLAS_NUM_THREADS": "1"}), ("numpy", {}))
        )
        self.path = f"{folder}/result.npy"
        self.versions = self.kiln.ask("versions") | self.peer.ask("versions")
        self.peaks = self.measured_peaks()

    def turns(self, call):
        """Microseconds of both: A, B, B, A, so that a drift of the machine counts for neither."""
        samples = {self.kiln: [], self.peer: []}
        first, second = (self.kiln, self.peer) if call.index % 2 else (self.peer, self.kiln)
        for worker, other in ((first, second), (second, first), (second, first), (first, second)):
            other.rest()
            samples[worker] += worker.ask("measure", TURN_S / 2)
        return samples[self.kiln], samples[self.peer]

    def measured_peaks(self):
        """{"gflops": {dtype: best}, "gb_s": best}: the better library's product of 1536^2 matrices, and copy of 64 MiB."""
        draw = Draw(0, "products", 0)
        products = {
            dtype: draw.call("", "matmul", [DrawnInput((1536, 1536), dtype)] * 2, (1536, 1536), 2.0 * 1536**3)
            for dtype in ("f32", "f64")
        }
        copy = draw.call("", "copy", [DrawnInput((2**24,), "f32")], (2**24,))
        best_us = {}
        for name, call in {**products, "copy": copy}.items():
            for worker in (self.kiln, self.peer):
                worker.ask("prepare", call)
            best_us[name] = min(min(samples) for samples in self.turns(call))
        gflops = {dtype: call.flops / best_us[dtype] * 1e-3 for dtype, call in products.items()}
        return {"gflops": gflops, "gb_s": copy.touched_bytes / best_us["copy"] * 1e-3}

    def roof_us(self, call):
        """What the call would take at the peaks: its arithmetic (of f32 where it is neither float) or its memory."""
        rate = self.peaks["gflops"].get(call.dtype, self.peaks["gflops"]["f32"])
        return max(call.flops / rate, call.touched_bytes / self.peaks["gb_s"]) * 1e-3

    def row(self, call, tuning_budget_s=None):
        row = {
            "family": call.family,
            "index": call.index,
            "kind": call.kind,
            "call": str(call),
            "bytes": call.touched_bytes,
            "flops": call.flops,
        }
        try:
            row["cold_ms"] = self.kiln.ask("prepare", call)
            self.peer.ask("prepare", call)
            self.kiln.ask("save", self.path)
            row["error"], row["peer_error"] = self.peer.ask("judge", self.path)
            kiln, peer = self.turns(call)
            row |= {"samples": len(kiln), "kiln": timed(kiln), "peer": timed(peer)}
            row["speed"] = row["peer"]["median_us"] / row["kiln"]["median_us"]
            roof_us = self.roof_us(call)
            row |= {
                "kiln_of_roof": roof_us / row["kiln"]["median_us"],
                "peer_of_roof": roof_us / row["peer"]["median_us"],
            }
            if tuning_budget_s:
                self.peer.rest()
                tuned, default = (timed(samples) for samples in self.kiln.ask("tune", tuning_budget_s, TURN_S / 2))
                row |= {"tuned": tuned, "gain": default["median_us"] / tuned["median_us"]}
        except WorkerError as error:
            row["failed"] = str(error)
            row.pop("speed", None)
        return row

    def end(self):
        self.kiln.end()
        self.peer.end()


def kept_rows(path, run):
    """Rows of an earlier run by name. Its first line says what it was a run of."""
    if not path or not path.exists():
        return {}
    first, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    if first != run:
        raise SystemExit(f"--rows {path}: holds rows of {first}, not of {run}")
    return {(row["family"], row["index"]): row for row in rows}


def cpu_name():
    names = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor()


def measured_rows(arguments, calls, run):
    """Rows of all calls, and what the workers say of themselves."""
    kept = kept_rows(arguments.rows, run)
    log = arguments.rows.open("a") if arguments.rows else open(os.devnull, "w")
    with log, tempfile.TemporaryDirectory() as folder:
        if arguments.rows and not arguments.rows.stat().st_size:
            print(json.dumps(run), file=log, flush=True)
        measurement = Measurement(environment_of(arguments, f"{folder}/cache"), folder)
        rows, deadline = [], time.monotonic() + arguments.seconds
        for place, call in enumerate(calls):
            row = kept.get((call.family, call.index))
            if row is None:
                if time.monotonic() > deadline:
                    continue
                row = measurement.row(call, arguments.tuning_budget if call.index < arguments.tuned else None)
                print(json.dumps(row), file=log, flush=True)
                told = f"{row['speed']:7.3f}" if "speed" in row else " failed"
                say(f"{place + 1}/{len(calls)} {told} {call.name} {call}")
            rows.append(row)
        measurement.end()
    return rows, {**measurement.versions, "peaks": measurement.peaks}


def main(command_line=None):
    parser, arguments = arguments_of(command_line)
    calls = chosen_calls(arguments)
    if not calls:
        parser.error(f"--only {arguments.only}: no call matches")
    if arguments.list:
        for call in calls:
            print(f"{call.name:14} {call.kind:20} {call}")
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    run = {"seed": arguments.seed, "threads": arguments.threads, "cpu_features": arguments.cpu_features or "native"}
    with contextlib.suppress(KeyboardInterrupt):
        rows, said = measured_rows(arguments, calls, run)
        say(call_report.table(rows, "NumPy"))
        result = {"date": datetime.date.today().isoformat(), "cpu": cpu_name(), **run, **said}
        result_file.emit({**result, "figures": call_report.summary(rows), "rows": rows})
        if len(rows) < len(calls):
            say(f"{len(calls) - len(rows)} calls are left")
            return 3
        return 1 if any("failed" in row or call_report.is_wrong(row) for row in rows) else 0
    return 130


if __name__ == "__main__":
    sys.exit(main())
