"""A user's text beside its peers on a GPU: tuned by kiln.autotune, compared with an exact result, timed in turns."""

import dataclasses
import sys
import time
from collections.abc import Callable

import kiln
import torch
from gpu_timing import measure
from language_row import OWN, hold, line_of, row_of

PEERS_BOUNDS = 32  # a peer may be off by as many of the text's bounds: libraries add parts of k in 16 bits
TRITON_SAMPLES = 6  # of each config, to find the best
SHORT_US = 100  # what takes less varies more, and gets four times as many samples


@dataclasses.dataclass
class Call:
    """An op over tensors; a text's config is tuned, a built-in op has its default."""

    op: object
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    is_tuned: bool = True


@dataclasses.dataclass
class Case:
    name: str
    what: dict  # dtype, shape and so on, for the row
    call: Call
    out: torch.Tensor
    error: Callable  # of a result: the largest error over what is allowed
    flops: float
    bytes: float
    demands: list
    peers: dict = dataclasses.field(default_factory=dict)  # name -> call that returns the same, or writes it into `out`
    bounds: dict = dataclasses.field(default_factory=dict)  # name -> call that moves as many bytes and does no more
    beside: dict = dataclasses.field(default_factory=dict)  # name -> another Call of Kiln with the same result
    triton: Callable = None  # given what measures calls: {config: call}
    unit: str = "tflops"


@dataclasses.dataclass
class Effort:
    """How long things may take, and memory that is written to flush the L2 cache."""

    budget_s: float
    samples: int
    flush: torch.Tensor


def tuned(call, out, budget_s):
    """A function that launches the call, its config and, where it was tuned, how that went."""
    tuning = {}
    if call.is_tuned:
        table = kiln.autotune(call.op, *call.inputs, budget_s=budget_s, progress=False, **call.attributes)
        failed = [row for row in table if row["outcome"] in ("uncompiled", "unlaunched", "mismatched", "hung")]
        tuning = {
            "seconds": table.elapsed_s,
            "configs": len(table),
            "gain": table.gain,
            "complete": table.complete,
            # What does not fit the device is passed over; results that differ would be news.
            "failed": len(failed),
            "mismatched": sum(row["outcome"] == "mismatched" for row in failed),
        }
    resolved = kiln.resolve(call.op, *call.inputs, out=out, **call.attributes)
    config = " ".join(f"{name}={value}" for name, value in resolved.report.config.items())
    return lambda: resolved(*call.inputs, out=out), config, tuning


def error_of(case, run, bounds):
    """The largest error over what is allowed; AssertionError above `bounds`, and where a second run of Kiln's gives something else."""
    results = []
    for _ in range(2):
        case.out.fill_(float("nan") if case.out.is_floating_point() else 77)
        result = run()
        results.append((result if isinstance(result, torch.Tensor) else case.out).clone())
    error = case.error(results[0])
    assert error <= bounds, f"off by {error:.3g} times what is allowed"
    assert bounds > 1 or torch.equal(*(result.view(torch.uint8) for result in results)), "a second run gives other bits"
    return error


def usage_of(case):
    """What the compiler says of the chosen config: registers, spills, products that wait for each other."""
    usages = kiln.inspect(case.call.op, *case.call.inputs, emit="resources", device="cuda", **case.call.attributes)
    return {
        "registers": max(usage["registers"] for usage in usages.values()),
        "spill_bytes": sum(usage["spill_store_bytes"] for usage in usages.values()),
        "serializes_products": any(usage["serializes_products"] for usage in usages.values()),
    }


def fastest_of_triton(case, effort, extra):
    """{name: call} of Triton's best config; its name goes to `extra`."""
    if case.triton is None:
        return {}
    found = case.triton(lambda candidates: measure(candidates, TRITON_SAMPLES, effort.flush))
    if not found:
        return {}
    ((extra["triton"]["config"], call),) = found.items()
    return {"triton": call}


def measured_row(case, effort):
    """The case's row; one that failed has its reason."""
    started = time.monotonic()
    what = dict(case.what)
    try:
        run, what["config"], what["tuning"] = tuned(case.call, case.out, effort.budget_s)
        what["error_of_allowed"] = error_of(case, run, 1)
        what["usage"] = usage_of(case)
    except (RuntimeError, ValueError, AssertionError, NotImplementedError) as error:
        print(f"{case.name} {case.what['dtype']}: FAILED: {str(error)[:2000]}", file=sys.stderr, flush=True)
        return {"case": case.name, **what, "failed": str(error).strip()[:300]}
    extra, failed, providers = {"triton": {}}, {}, {OWN: run}
    others = dict(case.peers)
    for name, call in case.beside.items():
        try:
            others[name], config, _ = tuned(call, case.out, effort.budget_s)
            extra[name] = {"config": config}
        except (RuntimeError, ValueError) as error:
            failed[name] = str(error).strip()[:300]
    for name, call in {**others, **fastest_of_triton(case, effort, extra)}.items():
        try:
            error_of(case, call, PEERS_BOUNDS)
            providers[name] = call
        except (RuntimeError, AssertionError) as error:  # the others still count
            failed[name] = str(error).strip()[:300]
            print(f"{case.name} {case.what['dtype']}: {name}: {failed[name]}", file=sys.stderr, flush=True)
    providers |= case.bounds
    times = measure(providers, effort.samples, effort.flush)
    if min(times[OWN]) < SHORT_US:
        times = measure(providers, 4 * effort.samples, effort.flush)
    row = hold(row_of(case.name, what, times, extra, case.flops, case.bytes), case.demands, times)
    row["left_out"] = failed
    row["seconds"] = time.monotonic() - started
    print(line_of(row, case.unit), file=sys.stderr, flush=True)
    return row
