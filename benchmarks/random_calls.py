#!/usr/bin/env python3
"""Random calls of ops on the CPU: Kiln's time beside NumPy's.

    PYTHONPATH=build/python .venv/bin/python benchmarks/random_calls.py SEED > result.json

A call is drawn from the seed, its family (products, other) and its number: op, shapes, dtype, layout. Each library runs in a process of its own, pinned to as many CPUs as it
has threads, and makes the same call over the same values as its user makes it, with `out` wherever NumPy takes one. The two take turns within each call, and both results are
compared with one in f64. stdout has the result in the project's form (result_file.py), stderr a summary: Kiln's speed over NumPy's.

Status: 0; 1 where a result is wrong or a call failed; 2 for wrong arguments; 3 where --seconds left calls for later.
"""

import argparse
import datetime
import fnmatch
import json
import math
import os
import pathlib
import platform
import sys
import tempfile
import time

import call_report
import result_file
from call_draw import FAMILIES, draw_call
from call_measurement import CPU_FEATURES, REGISTERS, Measurement, worker_environment
from library_worker import WorkerError

PEER = "NumPy"
WRONG, UNFINISHED = 1, 3


def say(text):
    print(text, file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def parsed(command_line):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--calls", type=int, default=300, metavar="N", help="of each family (300)")
    parser.add_argument("--family", choices=list(FAMILIES), help="only this one")
    parser.add_argument(
        "--only", metavar="GLOB", help="only calls of this name, kind or text: other/17, 'matmul T*', '*f64*'"
    )
    parser.add_argument("--list", action="store_true", help="print the calls' names, kinds and texts, and run none")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of each library, on as many CPUs (1)")
    parser.add_argument("--cpu-features", choices=list(CPU_FEATURES), help="what both libraries pretend to run on")
    parser.add_argument("--tuned", type=int, default=0, metavar="N", help="also tune the first N calls of each family")
    parser.add_argument("--tuning-budget", type=float, default=5, metavar="SECONDS", help="of one of them (5)")
    parser.add_argument(
        "--rows",
        "--resume",
        type=pathlib.Path,
        metavar="FILE.jsonl",
        help="keep each row there when it is measured; calls whose rows it has are not measured again",
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no call after so long; see --rows")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="draw the speeds (.png, .svg), by matplotlib")
    arguments = parser.parse_args(command_line)
    usable = len(os.sched_getaffinity(0))
    if arguments.calls < 1:
        parser.error(f"--calls {arguments.calls}: expected at least 1")
    if not 1 <= arguments.threads <= usable:
        parser.error(f"--threads {arguments.threads}: expected 1 to {usable}, the CPUs that this process may use")
    if arguments.tuned < 0:
        parser.error(f"--tuned {arguments.tuned}: expected at least 0")
    if not arguments.tuning_budget > 0:
        parser.error(f"--tuning-budget {arguments.tuning_budget}: expected seconds above 0")
    for path in filter(None, (arguments.rows, arguments.plot)):
        if not path.absolute().parent.is_dir():
            parser.error(f"{path}: there is no folder {path.parent}")
    calls = chosen_calls(arguments)
    if not calls:
        parser.error(f"--only {arguments.only}: no call of these {arguments.calls} of each family matches")
    return parser, arguments, calls


def chosen_calls(arguments):
    families = [arguments.family] if arguments.family else list(FAMILIES)
    calls = [draw_call(arguments.seed, family, index) for index in range(arguments.calls) for family in families]
    pattern = arguments.only or "*"
    return [call for call in calls if any(fnmatch.fnmatch(text, pattern) for text in (call.name, call.kind, str(call)))]


def cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


class RowsFile:
    """Rows of a run, a line each behind one that says what it is a run of. Without a path it holds nothing. Raises ValueError for another run's file."""

    def __init__(self, path, run):
        self.path, self.rows = path, {}
        if path and path.exists() and (lines := path.read_text().splitlines()):
            first, *rows = map(json.loads, lines)
            if first != run:
                raise ValueError(f"--rows {path} holds rows of {first}, and this is {run}")
            self.rows = {(row["family"], row["index"]): row for row in rows}
        elif path:
            self.append(run)

    def append(self, line):
        if self.path:
            with self.path.open("a") as file:
                print(json.dumps(line), file=file)

    def row_of(self, call):
        return self.rows.get((call.family, call.index))


def measured_rows(arguments, calls, kept):
    """Rows of the calls that there was time for, and what the libraries are and reach."""
    deadline = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        cache = f"{folder}/cache"
        environment = worker_environment(arguments.threads, arguments.cpu_features, cache, arguments.tuned > 0)
        measurement = Measurement(environment, folder)
        registers = REGISTERS.get(arguments.cpu_features)
        if registers and measurement.versions["kiln_registers"] != registers:
            raise WorkerError(f"this Kiln compiles for the machine's own processor, not for {arguments.cpu_features}")
        rows = []
        for place, call in enumerate(calls):
            row = kept.row_of(call)
            if row is None:
                if time.monotonic() > deadline:
                    continue
                row = measurement.row(call, arguments.tuning_budget if call.index < arguments.tuned else None)
                kept.append(row)
                speed = f"{row['speed']:7.3f}" if "speed" in row else " failed"
                say(f"{place + 1}/{len(calls)} {speed} {call.name} {call}")
            rows.append(row)
        measurement.end()
    return rows, {**measurement.versions, "peaks": measurement.peaks}


def main(command_line=None):
    parser, arguments, calls = parsed(command_line)
    if arguments.list:
        for call in calls:
            print(f"{call.name:13} {call.kind:14} {call}")
        return 0
    if arguments.plot:
        try:
            import call_plot
        except ImportError as error:
            parser.error(f"--plot: {error}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    run = {"seed": arguments.seed, "threads": arguments.threads, "cpu_features": arguments.cpu_features or "native"}
    try:
        rows, libraries = measured_rows(arguments, calls, RowsFile(arguments.rows, run))
    except (ValueError, WorkerError) as error:
        parser.error(str(error))
    say(call_report.text_of(rows, PEER))
    about = {"date": datetime.date.today().isoformat(), "cpu": cpu_name(), "peer": PEER, **run, **libraries}
    result_file.emit({**about, "figures": call_report.figures_of_families(rows), "rows": rows})
    if arguments.plot:
        call_plot.draw(rows, about, arguments.plot)
    if len(rows) < len(calls):
        say(f"{len(calls) - len(rows)} calls are left")
        return UNFINISHED
    return WRONG if any("failed" in row or call_report.is_wrong(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
