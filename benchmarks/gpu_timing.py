"""Cases on a GPU: providers in one process, on one stream, with one clock.

Each sample: the L2 is overwritten, then one call between two events. Providers take turns within a round, in an order drawn anew for each: the same kernel on
different places of a fixed order differed by up to 6% at 7 us. The device waits until a whole round is queued, so that events never see the host.
"""

import dataclasses
import random
import statistics
import sys
from collections.abc import Callable

import result_file
import torch
from kiln_library import Kiln
from peer_speed import middle_mean


@dataclasses.dataclass
class Case:
    name: str
    op: str
    outputs: list
    inputs: list
    torch_call: Callable  # returns the output, or writes it into outputs[0] and returns None
    attributes: dict = dataclasses.field(default_factory=dict)
    peers: dict = dataclasses.field(default_factory=dict)  # name -> call that does the same
    bounds: dict = dataclasses.field(default_factory=dict)  # name -> call that moves the same bytes and does no more
    expected: Callable = None  # where torch's own result is not accurate
    compared: bool = True  # False: random output, only its distribution is
    rtol: float = 2e-6
    atol: float = 1e-5


QUEUEING_CYCLES = 200_000  # of the device's clock, about 100 us: more than the host takes to queue one sample


def measure(providers, samples, flush):
    """Microseconds per sample, by provider name; sample i of all providers is of one round."""
    times = {name: [] for name in providers}
    events = {name: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for name in providers}
    order, shuffle = list(providers), random.Random(7).shuffle
    for run in providers.values():
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    for _ in range(samples):
        shuffle(order)
        torch.cuda._sleep(QUEUEING_CYCLES * len(order))
        for name in order:
            start, stop = events[name]
            flush.zero_()
            start.record()
            providers[name]()
            stop.record()
        torch.cuda.synchronize()
        for name, (start, stop) in events.items():
            times[name].append(start.elapsed_time(stop) * 1e3)
    return times


def summary(samples_us, moved_bytes):
    ordered = sorted(samples_us)
    median = statistics.median(ordered)
    return {
        "median_us": median,
        "p10_us": ordered[len(ordered) // 10],
        "p90_us": ordered[len(ordered) * 9 // 10],
        "gb_s": moved_bytes / median / 1e3,
    }


def normal(shape, dtype):
    values = torch.randn(shape, device="cuda", dtype=torch.float32)
    return (values * 40).to(dtype) if dtype == torch.int8 else values.to(dtype)


def check(case, run):
    expected = (case.expected or case.torch_call)()
    expected = (case.outputs[0] if expected is None else expected).clone()
    for output in case.outputs:
        output.fill_(float("nan") if output.is_floating_point() else 77)
    run()
    torch.cuda.synchronize()
    got = case.outputs[0]
    if case.compared:
        rtol = max(case.rtol, 1.6e-2 if got.dtype == torch.bfloat16 else 0)
        torch.testing.assert_close(got, expected, rtol=rtol, atol=case.atol)
    else:
        torch.testing.assert_close(got.double().mean(), expected.double().mean(), rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(got.double().std(), expected.double().std(), rtol=1e-3, atol=1e-3)


def run_cases(cases, library, samples=60, only="", configs=()):
    """Measures the cases whose name holds `only`, with the default config and `configs`, and returns the rows of the result."""
    torch.manual_seed(7)
    kiln = Kiln(library, torch.cuda.current_stream().cuda_stream)
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    rows = []
    for case in cases(kiln):
        if only not in case.name:
            continue
        row = {
            "case": case.name,
            "op": case.op,
            "dtype": str((case.inputs or case.outputs)[0].dtype).removeprefix("torch."),
        }
        rows.append(row)
        try:
            run = kiln.resolve(case.op, case.outputs, case.inputs, case.attributes)
            check(case, run)
        except (RuntimeError, AssertionError) as error:  # the other cases still count
            row["failed"] = str(error)
            print(f"{case.name} {row['dtype']}: FAILED: {error}", file=sys.stderr)
            continue
        row.update(config=run.config, flops=run.flops, bytes=run.bytes, samples=samples)
        providers = {"kiln": run, "torch": case.torch_call, **case.peers, **case.bounds}
        for config in configs:
            try:
                providers["kiln " + config] = kiln.resolve(case.op, case.outputs, case.inputs, case.attributes, config)
            except RuntimeError as error:
                print(case.name, config, error, file=sys.stderr)
        measured = measure(providers, samples, flush)
        row.update({provider: summary(times, run.bytes) for provider, times in measured.items()})
        ours, peers = row["kiln"]["median_us"], ["torch", *case.peers]
        row["kiln_speed_over_best_peer"] = min(row[p]["median_us"] for p in peers) / ours
        row["kiln_mean_speed_over_best_peer"] = min(
            middle_mean(theirs / kiln for theirs, kiln in zip(measured[p], measured["kiln"])) for p in peers
        )
        if case.bounds:
            row["kiln_speed_over_bound"] = min(row[p]["median_us"] for p in case.bounds) / ours
        print(
            f"{case.name:52} {row['dtype']:9} "
            + "  ".join(f"{p} {row[p]['gb_s']:.0f}" for p in measured)
            + f"  x{row['kiln_speed_over_best_peer']:.3f} (mean {row['kiln_mean_speed_over_best_peer']:.3f})"
            + (f"  bound x{row['kiln_speed_over_bound']:.3f}" if case.bounds else "")
            + f"  [{run.config}]",
            file=sys.stderr,
            flush=True,
        )
    return rows


def main(description, cases):
    import argparse

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--only", default="", help="run the cases whose name holds this text")
    parser.add_argument("--configs", nargs="*", default=[], help="also measure these configs of the chosen variant")
    arguments = parser.parse_args()
    rows = run_cases(cases, arguments.library, arguments.samples, arguments.only, arguments.configs)
    result_file.emit(rows)
    if any("failed" in row for row in rows):
        sys.exit(1)
