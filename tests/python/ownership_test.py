"""Who owns what: results outlive their inputs, views their bases, and nothing is kept that a call did not return."""

from __future__ import annotations

import gc
import sys
import weakref

import kiln
import numpy
import pytest
from op_case import Call, Case, op_names
from random_arrays import normal


def churn() -> None:
    """Takes and gives back memory of many sizes, so that freed memory is written over."""
    gc.collect()
    for size in (64, 1000, 4096, 100_000):
        for _ in range(20):
            numpy.full(size, 77, numpy.float32)


def test_results_outlive_their_inputs(random: numpy.random.Generator) -> None:
    x, y = normal(random, 1000), normal(random, 1000)
    expected = x + y
    result = kiln.ops.add(x, y)
    del x, y
    churn()
    numpy.testing.assert_array_equal(result, expected)


def test_views_of_results_outlive_them(random: numpy.random.Generator) -> None:
    x = normal(random, 64, 100)
    expected = (x + x)[::2, ::-3].T
    view = kiln.ops.add(x, x)[::2, ::-3].T
    churn()
    numpy.testing.assert_array_equal(view, expected)


def test_results_are_ordinary_arrays(random: numpy.random.Generator) -> None:
    result = kiln.ops.add(normal(random, 32), normal(random, 32))
    assert type(result) is numpy.ndarray and result.flags.writeable and result.flags.c_contiguous
    result[:] = 1
    numpy.testing.assert_array_equal(kiln.ops.add(result, result), numpy.full(32, 2, numpy.float32))


def test_results_do_not_share_memory(random: numpy.random.Generator) -> None:
    x = normal(random, 256)
    results = [kiln.ops.add(x, x) for _ in range(50)]
    for i, result in enumerate(results):
        result[:] = i
    assert all((result == i).all() for i, result in enumerate(results))


def test_a_view_as_input_outlives_its_base(random: numpy.random.Generator) -> None:
    base = normal(random, 128, 8)
    expected = base[3::5, 2] * 2
    view = base[3::5, 2]
    del base
    churn()
    numpy.testing.assert_array_equal(kiln.ops.mul(view, other=2.0), expected)


def test_a_view_of_a_kiln_tensor_outlives_it() -> None:
    tensor = kiln.empty((100,), "f32", "cpu")
    array = numpy.from_dlpack(tensor)
    array[:] = 7
    del tensor
    churn()
    numpy.testing.assert_array_equal(array, numpy.full(100, 7, numpy.float32))


def test_a_temporary_may_be_an_argument(random: numpy.random.Generator) -> None:
    x = normal(random, 5000)
    for _ in range(100):
        numpy.testing.assert_array_equal(kiln.ops.add(x * 2, x * 3), x * 2 + x * 3)
        numpy.testing.assert_array_equal(kiln.ops.neg(kiln.ops.neg(x.copy())), x)


def test_a_resolved_op_keeps_no_tensor(random: numpy.random.Generator) -> None:
    x, y = normal(random, 100), normal(random, 100)
    resolved = kiln.resolve("add", x, y)
    first = weakref.ref(x)
    x, y = normal(random, 100), normal(random, 100)
    assert first() is None
    numpy.testing.assert_array_equal(resolved(x, y), x + y)


def test_a_resolved_op_outlives_its_maker() -> None:
    def make() -> kiln.ResolvedOp:
        return kiln.resolve("exp2", numpy.zeros(10, numpy.float32))

    resolved = make()
    churn()
    numpy.testing.assert_array_equal(resolved(numpy.full(10, 3, numpy.float32)), numpy.full(10, 8, numpy.float32))


def call_returning(x: numpy.ndarray, y: numpy.ndarray, out: numpy.ndarray) -> None:
    kiln.ops.add(x, y)


def call_writing(x: numpy.ndarray, y: numpy.ndarray, out: numpy.ndarray) -> None:
    assert kiln.ops.add(x, y, out=out) is out


def call_by_name(x: numpy.ndarray, y: numpy.ndarray, out: numpy.ndarray) -> None:
    kiln.dispatch_gpu_op("add", x, y, out=out, alpha=2.0)


def call_with_keywords(x: numpy.ndarray, y: numpy.ndarray, out: numpy.ndarray) -> None:
    kiln.ops.linear(x=x[None], weight=y[None], bias=None)


def call_refused(x: numpy.ndarray, y: numpy.ndarray, out: numpy.ndarray) -> None:
    with pytest.raises(ValueError):
        kiln.ops.add(x, y[:-1], out=out)


def call_with_a_bad_second_input(x: numpy.ndarray, y: numpy.ndarray, out: numpy.ndarray) -> None:
    with pytest.raises(TypeError):
        kiln.ops.add(x, [1.0], out=out)


def call_with_a_bad_output(x: numpy.ndarray, y: numpy.ndarray, out: numpy.ndarray) -> None:
    with pytest.raises((TypeError, ValueError)):
        kiln.ops.add(x, y, out="out")


@pytest.mark.parametrize(
    "call",
    [
        call_returning,
        call_writing,
        call_by_name,
        call_with_keywords,
        call_refused,
        call_with_a_bad_second_input,
        call_with_a_bad_output,
    ],
)
def test_reference_counts_stay(call, random: numpy.random.Generator) -> None:  # type: ignore[no-untyped-def]
    x, y, out = normal(random, 40), normal(random, 40), numpy.empty(40, numpy.float32)
    call(x, y, out)
    gc.collect()
    before = [sys.getrefcount(thing) for thing in (x, y, out, numpy.ndarray, x.dtype)]
    for _ in range(200):
        call(x, y, out)
    gc.collect()
    after = [sys.getrefcount(thing) for thing in (x, y, out, numpy.ndarray, x.dtype)]
    assert all(abs(now - then) <= 20 for now, then in zip(after, before, strict=True)), (before, after)
    assert after[:3] == before[:3]


def test_arguments_go_with_their_last_name(random: numpy.random.Generator) -> None:
    x, out = normal(random, 40), numpy.empty(40, numpy.float32)
    gone = [weakref.ref(x), weakref.ref(out)]
    result = kiln.ops.exp(x, out=out)
    assert result is out
    del x, out, result
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_results_free_their_memory(random: numpy.random.Generator) -> None:
    result = kiln.ops.add(normal(random, 10), normal(random, 10))
    gone = weakref.ref(result)
    del result
    assert gone() is None


def test_an_exception_leaves_the_output_alone(random: numpy.random.Generator) -> None:
    out = numpy.full(10, 5, numpy.float32)
    for bad in ([1.0], numpy.zeros(3, numpy.float32), numpy.zeros(10, object)):
        with pytest.raises((TypeError, ValueError)):
            kiln.ops.add(normal(random, 10), bad, out=out)
    numpy.testing.assert_array_equal(out, numpy.full(10, 5, numpy.float32))


def test_changed_inputs_are_the_objects_given(random: numpy.random.Generator) -> None:
    """Every op of the registry that changes inputs."""
    changing = [name for name in op_names() if any(tensor.mutated for tensor in kiln.op(name).spec.inputs)]
    assert changing
    for name in changing:
        op = kiln.op(name)
        example = op.spec.examples()[0]
        assert Call(op, Case(example.inputs, example.attributes, example.ranges), "numpy").run() is not None


def test_torch_results_outlive_their_inputs() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(1000)
    expected = (x + x)[::3]
    view = kiln.ops.add(x, x)[::3]
    del x
    churn()
    assert torch.equal(view, expected)


def test_torch_tensors_are_given_back() -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.randn(100), torch.empty(100)
    counts = [sys.getrefcount(x), sys.getrefcount(out)]
    for _ in range(100):
        assert kiln.ops.exp(x, out=out) is out
        kiln.ops.exp(x)
        with pytest.raises(TypeError):
            kiln.ops.add(x, [1.0], out=out)
    gc.collect()
    assert [sys.getrefcount(x), sys.getrefcount(out)] == counts
    gone = weakref.ref(kiln.ops.exp(x))
    assert gone() is None


class Clearing:
    """An array whose library empties a list while it hands the memory over, as another thread may during a call."""

    def __init__(self, held: numpy.ndarray, victim: list[object]) -> None:
        self.held, self.victim = held, victim

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.held.__dlpack_device__()

    def __dlpack__(self, **arguments: object) -> object:
        self.victim.clear()
        churn()
        return self.held.__dlpack__(**arguments)


def test_a_list_of_inputs_may_change_during_the_call(random: numpy.random.Generator) -> None:
    x, y = normal(random, 4096), normal(random, 4096)
    expected = numpy.concatenate([x, y])
    for by_name in (False, True):
        arrays: list[object] = []
        arrays += [Clearing(x.copy(), arrays), y.copy()]
        result = kiln.ops.concat(tensors=arrays) if by_name else kiln.ops.concat(arrays)
        assert not arrays
        numpy.testing.assert_array_equal(numpy.asarray(result), expected)


def test_a_list_of_outputs_may_change_during_the_call(random: numpy.random.Generator) -> None:
    x = normal(random, 50, 70)
    outputs: list[object] = []
    values = numpy.zeros(50, numpy.float32)
    outputs += [Clearing(values, outputs), numpy.full(50, -1, numpy.int64)]
    _, indices = kiln.ops.max(x, dim=1, out=outputs)
    assert not outputs
    numpy.testing.assert_array_equal(indices, x.argmax(1))
    numpy.testing.assert_array_equal(values, x.max(1))
