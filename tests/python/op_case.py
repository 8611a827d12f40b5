"""Calls of the registry's ops, made from what their specs say, and run with everything around them checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import kiln
import numpy
from array_memory import GuardedArray, dense_layout, kiln_name, mismatch, numpy_dtype, random_layout, to_numpy

MOST_ELEMENTS = 20_000  # of a case's tensors together: the references are naive
EXTENTS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 257)


@dataclasses.dataclass
class Case:
    inputs: list[Any]  # kiln.TensorMeta
    attributes: dict[str, Any]
    ranges: list[Any] = dataclasses.field(default_factory=list)
    layouts: str = "dense"  # or "random"
    outputs: str = "returned"  # "given": out=; "in_place": out= is the first input
    read_only: bool = False
    spoiled: bool = False  # what the op skips stands here and there
    seed: int = 0


@dataclasses.dataclass
class Outcome:
    """A call that was made: inputs as they were and results, as NumPy arrays."""

    inputs: list[Any]
    results: list[Any]


# While tests are collected: those that run before register ops of their own, some with specs that are wrong on purpose.
_OPS = [name for name in dir(kiln.ops) if name.isidentifier() and kiln.op(name).spec.has_reference]


def op_names() -> list[str]:
    """The built-in ops that have a reference."""
    return list(_OPS)


def elements_of(metas: list[Any]) -> int:
    return sum(int(numpy.prod(meta.shape)) for meta in metas)


def supported(metas: list[Any]) -> bool:
    return all(numpy_dtype(meta.dtype) is not None for meta in metas)


def random_shape(random: numpy.random.Generator) -> tuple[int, ...]:
    """At most about 10000 elements; sometimes none, sometimes no dimensions."""
    shape: list[int] = []
    elements = 1
    for _ in range(random.integers(5)):
        extent = int(random.choice(EXTENTS))
        while elements * extent > 10_000:
            extent //= 2
        extent = 0 if random.integers(30) == 0 else max(extent, 1)
        elements *= max(extent, 1)
        shape.append(extent)
    return tuple(shape)


def broadcast_operand(shape: tuple[int, ...], random: numpy.random.Generator) -> tuple[int, ...]:
    dropped = int(random.integers(len(shape) + 1)) if random.integers(3) == 0 else 0
    return tuple(1 if random.integers(4) == 0 else extent for extent in shape[dropped:])


def retyped(metas: list[Any], dtype: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    """The dtype of the last input replaced wherever it occurs: a condition stays boolean."""
    replaced = metas[-1].dtype if metas else None
    return [
        kiln.TensorMeta(dtype if meta.dtype == replaced else meta.dtype, shape)
        for meta, shape in zip(metas, shapes, strict=True)
    ]


def cases(spec: Any, random: numpy.random.Generator, *, examples: int, dtypes: int, calls: int) -> Iterator[Case]:
    """So many of the spec's examples, its dtypes and random calls, each at most as often as there are different ones.

    What there are more of is drawn: most calls compile a kernel, and over all ops every dtype and layout is met.
    """

    def vary(case: Case) -> Case:
        case.layouts = "random" if random.integers(4) else "dense"
        case.outputs = str(random.choice(["returned", "given", "given", "in_place"]))
        case.read_only = bool(random.integers(2))
        case.spoiled = bool(random.integers(4))
        case.seed = int(random.integers(2**31))
        return case

    def some(things: list[Any], count: int) -> list[Any]:
        chosen = random.permutation(len(things))[:count]
        return [things[i] for i in sorted(chosen)]

    known = [e for e in spec.examples() if elements_of(e.inputs) <= MOST_ELEMENTS and supported(e.inputs)]
    for example in some(known, examples):
        yield Case(example.inputs, example.attributes, example.ranges, seed=int(random.integers(2**31)))
    wanted = set(some([dtype for dtype in spec.dtypes if numpy_dtype(dtype) is not None], dtypes))
    if spec.has_random_example:
        made = tried = 0
        while (made < calls or (wanted and spec.inputs)) and tried < 1000:
            tried += 1
            example = spec.random_example(int(random.integers(2**31)))
            met = {meta.dtype for meta in example.inputs}
            if made >= calls and not met & wanted:
                continue
            if elements_of(example.inputs) > MOST_ELEMENTS or not supported(example.inputs):
                continue
            made += 1
            wanted -= met
            yield vary(Case(example.inputs, example.attributes, example.ranges))
        return
    for dtype in sorted(wanted, key=kiln_name):
        example = known[random.integers(len(known))]
        shapes = [(int(random.choice([127, 128, 129, 257, 1009])),)] * len(example.inputs)
        yield vary(Case(retyped(example.inputs, dtype, shapes), example.attributes))
    for _ in range(calls):
        example = known[random.integers(len(known))]
        dtype = random.choice(sorted(wanted, key=kiln_name))
        shape = random_shape(random)
        broadcasts = len(example.inputs) > 1 and random.integers(2)
        shapes = [broadcast_operand(shape, random) if broadcasts else shape for _ in example.inputs]
        yield vary(Case(retyped(example.inputs, dtype, shapes), example.attributes))


class Call:
    """One case over memory of its own: run() makes it and returns its outcome, or None where the op refuses it."""

    def __init__(self, op: Any, case: Case, where: str) -> None:
        self.op, self.case, self.where = op, case, where
        self.random = numpy.random.default_rng(case.seed)

    def describe(self, *arrays: GuardedArray | None) -> str:
        tensors = ["None" if a is None else f"{a.dtype}{list(a.shape)} strides {list(a.strides)}" for a in arrays]
        return f"{self.op.name} on {self.where}, {self.case}\n  tensors: {'; '.join(tensors)}"

    def allocate(self, meta: Any, *, may_repeat: bool) -> GuardedArray:
        dtype = numpy_dtype(meta.dtype)
        assert dtype is not None
        layout = dense_layout(tuple(meta.shape))
        if self.case.layouts == "random":
            may_reverse = self.where == "numpy"  # torch has no negative strides
            layout = random_layout(tuple(meta.shape), self.random, may_repeat=may_repeat, may_reverse=may_reverse)
        return GuardedArray(dtype, tuple(meta.shape), layout)

    def run(self) -> Outcome | None:
        spec, case = self.op.spec, self.case
        in_place = case.outputs == "in_place" and spec.aliasing != "none"
        # One element many times over leaves the range, whatever brings the product back.
        may_repeat = not in_place and self.op.name != "prod"

        inputs = [
            None if meta.absent else self.allocate(meta, may_repeat=may_repeat and not self.is_changed(i))
            for i, meta in enumerate(case.inputs)
        ]
        try:
            metas = kiln.infer_outputs(self.op.name, *(a and a.host for a in inputs), **case.attributes)
        except kiln.UsageError:
            return None
        if not supported(metas):
            return None
        contents = {"seed": case.seed, "ranges": case.ranges, "spoiled": case.spoiled}
        place = "cuda" if self.where == "cuda" else "cpu"
        memory = spec.fill_inputs([a and a.host for a in inputs], case.attributes, **contents, device=place)
        before = [a and a.host.copy() for a in inputs]
        for array in inputs:
            if array is not None:
                array.remember()
        expected_inputs = [array if array is None else array.copy() for array in before]
        expected = [numpy.empty(meta.shape, numpy_dtype(meta.dtype)) for meta in metas]
        if memory:  # the reference follows addresses of memory of its own
            spare = [array if array is None else array.copy() for array in before]
            expected_memory = spec.fill_inputs(spare, case.attributes, **contents)
            for i, input_spec in enumerate(spec.inputs):
                if input_spec.points_to:
                    expected_inputs[i] = spare[i]
        spec.reference(expected_inputs, expected, case.attributes)
        expected += [expected_inputs[i] for i in range(len(inputs)) if inputs[i] is not None and self.is_changed(i)]

        first = inputs[0] if inputs else None
        in_place = (
            in_place and first is not None and (first.shape, first.dtype) == (expected[0].shape, expected[0].dtype)
        )
        written = [self.is_changed(i) or (in_place and i == 0) for i in range(len(inputs))]
        given = [
            array and array.give(self.where, read_only=case.read_only and not written[i])
            for i, array in enumerate(inputs)
        ]
        outputs: list[GuardedArray] = []
        options: dict[str, Any] = {}
        if metas and (case.outputs != "returned" or self.needs_output()):
            outputs = [self.allocate(meta, may_repeat=False) for meta in metas]
            if in_place and first is not None:
                outputs[0] = first
            arrays = [a.give(self.where) for a in outputs]
            if in_place:
                arrays[0] = given[0]
            options["out"] = arrays[0] if len(arrays) == 1 else tuple(arrays)
        text = self.describe(*inputs, *outputs)
        try:
            returned = self.op(*given, **options, **case.attributes)
        except kiln.UsageError:
            if case.layouts == "dense" and case.outputs != "in_place":
                raise
            return None  # rows that must be dense
        results = list(returned) if isinstance(returned, tuple) else [returned]
        self.check_identity(results, given, options, text)
        for array in [*inputs, *outputs]:
            if array is not None:
                array.take_back()
        for i, array in enumerate(inputs):
            if array is not None:
                damage = array.damage(elements_may_change=written[i])
                assert not damage, f"{text}\n  input {i}: {damage}"
        for array in outputs:
            assert not (damage := array.damage(elements_may_change=True)), f"{text}\n  output: {damage}"
        got = [to_numpy(result) for result in results]
        if memory:  # and what is compared is that memory, not the tables
            got = [numpy.asarray(kiln.to_device(block, "cpu")) for block in memory]
            expected = [numpy.asarray(kiln.to_device(block, "cpu")) for block in expected_memory]
        assert len(got) == len(expected), text
        for result, want in zip(got, expected, strict=True):
            tolerance = spec.tolerance(want.dtype)
            wrong = mismatch(result, want, tolerance.relative, tolerance.absolute)
            assert not wrong, f"{text}\n  {wrong}"
        return Outcome(before, [result.copy() for result in got])

    def is_changed(self, index: int) -> bool:
        inputs = self.op.spec.inputs
        return bool(inputs[min(index, len(inputs) - 1)].mutated)

    def needs_output(self) -> bool:
        """An op without tensors runs on a GPU where its output is there."""
        return not self.case.inputs and self.where == "cuda"

    def check_identity(self, results: list[Any], given: list[Any], options: dict[str, Any], text: str) -> None:
        """out= comes back as the very objects, and so do changed inputs; anything else is of the caller's kind."""
        if "out" in options:
            outs = options["out"] if isinstance(options["out"], tuple) else (options["out"],)
            assert all(result is out for result, out in zip(results, outs, strict=True)), text
            return
        changed = [array for i, array in enumerate(given) if array is not None and self.is_changed(i)]
        if changed:
            assert all(result is array for result, array in zip(results, changed, strict=True)), text
            return
        kind = numpy.ndarray if self.where == "numpy" or not given else type(given[0])
        assert all(isinstance(result, kind) for result in results), f"{text}\n  results: {[type(r) for r in results]}"
