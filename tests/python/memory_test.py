"""A million calls of each kind leave the process no larger than it was.

Without KILN_SWEEP=full a kind stops after a few seconds, with as many calls as fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import kiln
import numpy
import pytest
from conftest import SWEEP
from process_memory import resident_bytes

CALLS = 1_000_000
MOST_SECONDS = 1e9 if SWEEP == "full" else 2.0
BATCH = 5_000
ALLOWED_BYTES = 3 << 20  # of allocators and the interpreter; a leak of 8 bytes a call is more

X, Y = numpy.ones(100, numpy.float32), numpy.ones(100, numpy.float32)
OUT = numpy.empty(100, numpy.float32)


def refused(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        try:
            call()
        except (TypeError, ValueError):
            return
        raise AssertionError("the call was not refused")

    return run


def numpy_calls() -> dict[str, Callable[[], Any]]:
    resolved = kiln.resolve("add", X, Y)
    return {
        "returned": lambda: kiln.ops.add(X, Y),
        "given": lambda: kiln.ops.add(X, Y, out=OUT),
        "by_name": lambda: kiln.dispatch_gpu_op("add", X, Y, out=OUT, alpha=2.0),
        "resolved": lambda: resolved(X, Y, out=OUT),
        "resolved_returned": lambda: resolved(X, Y),
        "two_outputs": lambda: kiln.ops.max(X, dim=0),
        "list_attribute": lambda: kiln.ops.sum(X, dim=[0]),
        "views": lambda: kiln.ops.add(X[::2], Y[::-2]),
        "inferred": lambda: kiln.infer_outputs("add", X, Y),
        "refused_shape": refused(lambda: kiln.ops.add(X, Y[:3])),
        "refused_type": refused(lambda: kiln.ops.add(X, "y")),
        "refused_attribute": refused(lambda: kiln.ops.add(X, Y, alhpa=1.0)),
        "refused_output": refused(lambda: kiln.ops.add(X, Y, out=OUT[:3])),
    }


def torch_calls() -> dict[str, Callable[[], Any]]:
    import torch

    x, out = torch.ones(100), torch.empty(100)
    resolved = kiln.resolve("add", x, x)
    return {
        "torch_returned": lambda: kiln.ops.add(x, x),
        "torch_given": lambda: kiln.ops.add(x, x, out=out),
        "torch_resolved": lambda: resolved(x, x, out=out),
        "torch_refused": refused(lambda: kiln.ops.add(x, x[:3])),
    }


def check_flat(call: Callable[[], Any]) -> None:
    for _ in range(2 * BATCH):
        call()
    before = resident_bytes()
    started = time.monotonic()
    calls = 0
    while calls < CALLS and time.monotonic() - started < MOST_SECONDS:
        for _ in range(BATCH):
            call()
        calls += BATCH
    grown = resident_bytes() - before
    seconds = time.monotonic() - started
    print(f"{calls} calls, {seconds / calls * 1e6:.2f} us each, grew by {grown} bytes")
    assert grown <= ALLOWED_BYTES


@pytest.mark.parametrize("kind", list(numpy_calls()))
def test_memory_stays_flat(kind: str) -> None:
    check_flat(numpy_calls()[kind])


@pytest.mark.parametrize("kind", ["torch_returned", "torch_given", "torch_resolved", "torch_refused"])
def test_memory_stays_flat_with_torch(kind: str) -> None:
    pytest.importorskip("torch")
    check_flat(torch_calls()[kind])


def test_large_results_are_freed() -> None:
    x = numpy.ones(1 << 20, numpy.float32)
    kiln.ops.add(x, x)
    before = resident_bytes()
    for _ in range(300):
        kiln.ops.add(x, x)
    assert resident_bytes() - before < 64 << 20


def test_new_shapes_do_not_pile_up() -> None:
    """Plans are kept, but only some thousands."""
    for size in range(1, 10_001):
        kiln.ops.add(numpy.ones(size, numpy.float32), other=1.0)
    growth_bytes = []
    for start in (10_001, 15_001, 20_001):  # plans that pile up do so every time; what the system moves does not
        before = resident_bytes()
        for size in range(start, start + 5_000):
            kiln.ops.add(numpy.ones(size, numpy.float32), other=1.0)
        growth_bytes.append(resident_bytes() - before)
    assert min(growth_bytes) < 8 << 20, growth_bytes


def test_torch_gpu_memory_stays_flat(gpu: str) -> None:
    import torch

    x, out = torch.ones(1000, device=gpu), torch.empty(1000, device=gpu)
    for call in (lambda: kiln.ops.add(x, x), lambda: kiln.ops.add(x, x, out=out)):
        call()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        check_flat(call)
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() == before
