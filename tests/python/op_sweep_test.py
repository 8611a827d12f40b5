"""Every op of the registry, as its spec describes it: against the spec's own reference, NumPy and torch.

Dtypes, layouts (permuted, stepped, reversed, expanded, shifted), sizes around those of tiles, empty tensors and
scalars, results returned, written to out= and in place, read-only inputs; guard bytes around everything. KILN_TEST_SEED
repeats a run; KILN_SWEEP says how much of it there is, "full" takes every dtype and example of each op, which compiles
for a quarter of an hour.
"""

from __future__ import annotations

import itertools

import kiln
import numpy
import peer_result
import pytest
from array_memory import mismatch
from conftest import SWEEP, gpu_problem
from op_case import Call, Case, Outcome, cases, op_names

AMOUNT = {
    "part": {"examples": 1, "dtypes": 1, "calls": 1},
    "whole": {"examples": 2, "dtypes": 2, "calls": 1},
    "full": {"examples": 99, "dtypes": 99, "calls": 40},
}[SWEEP]


def place_problem(where: str) -> str:
    if where == "cuda":
        return gpu_problem()
    if where == "torch":
        try:
            import torch  # noqa: F401
        except ImportError:
            return "needs torch"
    return ""


class Peers:
    """Comparisons with libraries that have the op too."""

    def __init__(self, op: kiln.Op, where: str) -> None:
        self.op, self.where = op, where
        self.has_torch = not place_problem("torch")
        self.compared = {"numpy": 0, "torch": 0}

    def compare(self, case: Case, outcome: Outcome) -> None:
        # One rounding of each side to the output's dtype.
        for peer, want in self.results(case, outcome):
            self.compared[peer] += 1
            for result, expected in zip(outcome.results, want, strict=False):
                tolerance = self.op.spec.tolerance(expected.dtype)
                step = rounding_step(expected.dtype)
                absolute = 2 * tolerance.absolute
                if peer == "torch" and expected.dtype.itemsize == 2:
                    absolute += 2 * step  # torch rounds between the steps of logsumexp and others
                if peer == "numpy":
                    absolute += peer_result.numpy_rounding(self.op.name, outcome.inputs)
                wrong = mismatch(result, expected, 2 * (tolerance.relative + step), absolute)
                assert not wrong, f"{self.op.name}, {case}: beside {peer}'s: {wrong}"

    def results(self, case: Case, outcome: Outcome):  # type: ignore[no-untyped-def]
        found = peer_result.numpy_results(self.op, outcome.inputs, case.attributes, outcome.results)
        if found is not None:
            yield "numpy", found
        if self.has_torch:
            found = peer_result.torch_results(self.op, outcome.inputs, case.attributes, self.where)
            if found is not None:
                yield "torch", found

    def unused(self) -> list[str]:
        """Libraries that have the op, but were not compared with."""
        has = {
            "numpy": peer_result.numpy_function(self.op.name),
            "torch": self.has_torch and peer_result.torch_function(self.op.name),
        }
        return [peer for peer, function in has.items() if function and not self.compared[peer]]


def rounding_step(dtype: numpy.dtype) -> float:  # type: ignore[type-arg]
    if dtype.kind in "iub":
        return 0.0
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


@pytest.mark.parametrize("where", ["numpy", "torch", "cuda"])
@pytest.mark.parametrize("name", op_names())
def test_agrees_with_its_reference(name: str, where: str, random: numpy.random.Generator) -> None:
    if problem := place_problem(where):
        pytest.skip(problem)
    op = kiln.op(name)
    peers = Peers(op, where)
    calls = 0
    more = cases(op.spec, random, examples=99, dtypes=99, calls=20)  # for peers that none of the drawn calls suited
    is_drawn = True
    for case in itertools.chain(cases(op.spec, random, **AMOUNT), [None], more):
        is_drawn = is_drawn and case is not None
        if not is_drawn and not peers.unused():
            break
        if case is None:
            continue
        outcome = Call(op, case, where).run()
        if outcome is None and case.layouts == "random":
            case.layouts = "dense"
            outcome = Call(op, case, where).run()
        if outcome is None:
            continue
        calls += 1
        peers.compare(case, outcome)
    assert calls > 0
    assert not peers.unused(), f"no call of {name} could be compared with {peers.unused()}, which have it too"


def test_the_registry_is_there() -> None:
    assert len(op_names()) >= 100
