#!/usr/bin/env python3
"""Random calls of ops: Kiln's time beside NumPy's or torch's on the CPU, or torch's on a GPU.

    PYTHONPATH=build/python .venv/bin/python benchmarks/random_calls.py SEED > result.json
    PYTHONPATH=build/python python3 benchmarks/random_calls.py SEED --device cuda --rows rows.jsonl --seconds 200 > result.json

A call is drawn from the seed, its family (products, other) and its number: op, shapes, dtype, layout; for a GPU others than for the CPU. Both libraries make the same call over
the same values as their users make it, with `out` wherever the peer takes one, and both results are compared with one in f64. On the CPU each library runs in a process of its own, pinned
to as many CPUs as it has threads, and the two take turns within each call. On a GPU they share a process and a stream: providers in random turns, the L2 overwritten before each sample, Kiln's
default, its tuned config where there is one (--tuned) and the best of torch's ways in one run. stdout has the result in the project's form (result_file.py), stderr a summary: Kiln's speed over its peer's.

Status: 0; 1 where a result is wrong or a call failed; 2 for wrong arguments; 3 where --seconds, or a fault of the GPU, left calls for later.
"""

import argparse
import datetime
import fnmatch
import math
import os
import pathlib
import sys
import time

import result_file
from call_devices import DEVICES
from call_measurement import CPU_FEATURES
from call_report import is_wrong
from call_rows import RowsFile
from library_worker import WorkerError

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
    parser.add_argument("--device", choices=list(DEVICES), default="cpu", help="where the calls run (cpu)")
    parser.add_argument("--family", choices=list(DEVICES["cpu"].families), help="only this one")
    parser.add_argument(
        "--only", metavar="GLOB", help="only calls of this name, kind or text: other/17, 'matmul T*', '*f64*'"
    )
    parser.add_argument("--list", action="store_true", help="print the calls' names, kinds and texts, and run none")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="of each library, on as many CPUs (1); cpu alone"
    )
    parser.add_argument(
        "--cpu-features", choices=list(CPU_FEATURES), help="what both libraries pretend to run on; cpu alone"
    )
    parser.add_argument("--peer", choices=list(DEVICES["cpu"].peers), default="numpy", help="on the cpu (numpy)")
    parser.add_argument("--tuned", type=int, default=0, metavar="N", help="also tune the first N calls of each family")
    parser.add_argument("--tuning-budget", type=float, default=5, metavar="SECONDS", help="of one of them (5)")
    parser.add_argument(
        "--rows",
        "--resume",
        type=pathlib.Path,
        metavar="FILE.jsonl",
        help="keep each row there when it is measured; calls whose rows it has are not measured again, but those to be tuned that were not",
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no call after so long; see --rows")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="draw the speeds (.png, .svg), by matplotlib")
    arguments = parser.parse_args(command_line)
    usable = len(os.sched_getaffinity(0))
    if arguments.calls < 1:
        parser.error(f"--calls {arguments.calls}: expected at least 1")
    if not 1 <= arguments.threads <= usable:
        parser.error(f"--threads {arguments.threads}: expected 1 to {usable}, the CPUs that this process may use")
    if arguments.device != "cpu" and (arguments.threads > 1 or arguments.cpu_features or arguments.peer != "numpy"):
        parser.error(f"--device {arguments.device}: --threads, --cpu-features and --peer are the CPU's")
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
    device = DEVICES[arguments.device]
    families = [arguments.family] if arguments.family else list(device.families)
    calls = [device.draw(arguments.seed, family, index) for index in range(arguments.calls) for family in families]
    pattern = arguments.only or "*"
    return [call for call in calls if any(fnmatch.fnmatch(text, pattern) for text in (call.name, call.kind, str(call)))]


def is_left(call, kept, arguments):
    row = kept.row_of(call)
    if row is None:
        return True
    return call.index < arguments.tuned and not {"tuning_gain", "tuning_failed", "failed"} & row.keys()


def measure(arguments, left, kept, measurement, deadline):
    """Measures what there is time for."""
    for place, call in enumerate(left):
        if time.monotonic() >= deadline:
            return
        if said := measurement.prepare(call):
            say(said)
        row = measurement.row(call, arguments.tuning_budget if call.index < arguments.tuned else None)
        kept.append(row)
        speed = f"{row['speed']:7.3f}" if "speed" in row else " failed"
        say(f"{place + 1}/{len(left)} {speed} {call.name} {call}")
        if measurement.is_lost:
            say("the device failed; the same command goes on behind this call")
            return


def main(command_line=None):
    deadline_from = time.monotonic()
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
    device = DEVICES[arguments.device]
    try:
        kept = RowsFile(arguments.rows)
        left = [call for call in calls if is_left(call, kept, arguments)]
        with device.measurement(arguments, kept, left) as measurement:
            measure(arguments, left, kept, measurement, deadline_from + arguments.seconds)
            about = {"date": datetime.date.today().isoformat(), **measurement.about}
    except (ValueError, WorkerError) as error:
        parser.error(str(error))
    rows = [row for row in map(kept.row_of, calls) if row]
    say(device.report.text_of(rows, about["peer"]))
    result_file.emit({**about, "figures": device.report.figures_of_families(rows), "rows": rows})
    if arguments.plot:
        title = f"random calls on {device.title(about)}"
        call_plot.draw(rows, title, about["peer"], arguments.plot, **device.about_plot)
    if num_left := sum(is_left(call, kept, arguments) for call in calls):
        say(f"{num_left} calls are left")
        return UNFINISHED
    return WRONG if any("failed" in row or is_wrong(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
