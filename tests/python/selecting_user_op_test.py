"""Ops of one's own that say what values of their inputs select or point to."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import kiln
import numpy
import pytest
from refusal import refused

TEXT = """
#include <kiln/tl.hpp>
template <typename T, typename Index, int BLOCK_SIZE>
KILN_KERNEL void pick(const T* x, const Index* index, T* out, tl::int64_t n, tl::int64_t rows) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto row = tl::cast<tl::int64_t>(tl::load(index + offsets, mask));
  tl::store(out + offsets, tl::load(x + row, mask & (row >= 0) & (row < rows)), mask);
}

template <typename T, typename Index, int BLOCK_SIZE>
KILN_KERNEL void move_rows(T* to, const T* from, const Index* pairs, tl::int64_t n, tl::int64_t sources,
                           tl::int64_t targets) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto source = tl::cast<tl::int64_t>(tl::load(pairs + offsets * 2, mask));
  auto target = tl::cast<tl::int64_t>(tl::load(pairs + (offsets * 2 + 1), mask));
  auto inside = mask & (source >= 0) & (source < sources) & (target >= 0) & (target < targets);
  tl::store(to + target, tl::load(from + source, inside), inside);
}

template <typename T, int BLOCK_SIZE>
KILN_KERNEL void add_at(tl::int64_t* table, const T* x, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  T* to = reinterpret_cast<T*>(tl::load(table + tl::program_id(1)));
  tl::store(to + offsets, tl::load(to + offsets, mask) + tl::load(x + offsets, mask), mask);
}
"""
_numbers = itertools.count()


def kernel(name: str) -> kiln.Kernel:
    return kiln.Kernel(TEXT, name, tunables={"BLOCK_SIZE": [128, 64]})


def register(name: str, **parts: Any) -> kiln.Op:
    """An op around one of the kernels above, under a name that no other test has."""
    return kiln.register_op(f"selected_{name}_{next(_numbers)}", kernel=kernel(name), dtypes=["f32"], **parts)


def register_pick(**of_index: Any) -> kiln.Op:
    """out[i] = x[index[i]], or 0 where there is no such row."""

    def pick(x: Any, index: Any) -> Any:
        return numpy.where((index >= 0) & (index < len(x)), x[numpy.clip(index, 0, len(x) - 1)], numpy.float32(0))

    def launch(call: Any, config: Any) -> kiln.Launch:
        grid = kiln.cdiv(call["index"].numel, config["BLOCK_SIZE"])
        return kiln.Launch(grid, arguments={"rows": call["x"].numel})

    return register(
        "pick",
        inputs=["x", kiln.Input("index", **({"selects": lambda call: range(call["x"].shape[0])} | of_index))],
        outputs="out",
        infer=lambda inputs: [(inputs[0].dtype, inputs[1].shape)],
        launch=launch,
        reference=pick,
        examples=[[("f32", (50,)), ("i64", (300,))], [("f32", (7,)), ("i32", (3, 5))]],
    )


def test_an_op_of_ones_own_says_what_its_indices_choose() -> None:
    op = register_pick()
    assert [part.selects for part in op.spec.inputs] == [False, True]
    assert op.spec.inputs[1].dtypes == [kiln.DType.i32, kiln.DType.i64]
    x, index = numpy.arange(50, dtype=numpy.float32) + 1, numpy.empty(4000, numpy.int64)
    op.spec.fill_inputs([numpy.empty_like(x), index], {})
    assert set(index.tolist()) == set(range(50))
    assert kiln.check(op).ok
    some_outside = numpy.array([0, 49, 50, -1])
    numpy.testing.assert_array_equal(op(x, some_outside), [1, 50, 0, 0])
    assert kiln.benchmark(op, x, some_outside, samples=2).skipped_share == 0.5
    table = kiln.autotune(op, x, some_outside, budget_s=0.3, progress=False)
    assert "50.0% of the work: 2 of 4 entries of 'index'" in str(table)
    assert kiln.benchmark(op, x, some_outside[:2], samples=2).skipped_share == 0


def test_columns_have_ranges_of_their_own_and_may_be_distinct() -> None:
    def move(to: Any, given: Any, pairs: Any) -> Any:
        for source, target in pairs:
            if 0 <= source < len(given) and 0 <= target < len(to):
                to[target] = given[source]
        return to

    op = register(
        "move_rows",
        inputs=[
            kiln.Input("to", mutated=True),
            "given",
            kiln.Input(
                "pairs",
                selects=lambda call: [
                    range(call["given"].numel),
                    kiln.Selection(range(call["to"].numel), distinct=True),
                ],
            ),
        ],
        launch=lambda call, config: kiln.Launch(
            kiln.cdiv(call["pairs"].shape[0], config["BLOCK_SIZE"]),
            arguments=[
                *(call[name] for name in ("to", "given", "pairs")),
                *(call["pairs"].shape[0], call["given"].numel, call["to"].numel),
            ],
        ),
        reference=move,
        examples=[[("f32", (400,)), ("f32", (30,)), ("i64", (200, 2))]],
    )
    to, given, pairs = (numpy.zeros(400, numpy.float32), numpy.ones(30, numpy.float32), numpy.empty((400, 2), int))
    op.spec.fill_inputs([to, given, pairs], {})
    assert set(pairs[:, 0].tolist()) == set(range(30))
    assert sorted(pairs[:, 1].tolist()) == list(range(400))
    assert kiln.check(op).ok


def register_add_at(**of_table: Any) -> kiln.Op:
    """Adds x to what lies at each address of a table."""
    parts = {"mutated": True, "points_to": lambda call: (call["x"].dtype, call["x"].shape)} | of_table

    def add(table: Any, x: Any) -> None:
        for address in table:
            memory = (ctypes.c_float * x.size).from_address(int(address))
            numpy.frombuffer(memory, numpy.float32)[:] += x

    return register(
        "add_at",
        inputs=[kiln.Input("table", **parts), "x"],
        launch=lambda call, config: kiln.Launch(
            [kiln.cdiv(call["x"].numel, config["BLOCK_SIZE"]), call["table"].numel],
            arguments={"n": call["x"].numel},
        ),
        reference=add,
        examples=[[("i64", (3,)), ("f32", (300,))]],
    )


def test_an_op_of_ones_own_says_what_lies_at_its_addresses() -> None:
    op = register_add_at()
    assert op.spec.inputs[0].points_to and op.spec.inputs[0].dtypes == [kiln.DType.i64]
    report = kiln.check(op)
    assert report.ok, report
    assert report[0].outputs[0].name == "table[0]" and report[0].outputs[0].num_elements == 300
    memory, x = numpy.zeros((2, 300), numpy.float32), numpy.ones(300, numpy.float32)
    table = numpy.array([row.ctypes.data for row in memory], numpy.int64)
    kiln.autotune(op, table, x, budget_s=0.3, progress=False)
    kiln.benchmark(op, table, x, samples=2)
    assert not memory.any()
    op(table, x)
    assert (memory == 1).all()
    table[1] = 0
    refused(ValueError, r"'table'\[1\] is a null address", lambda: op(table, x))


@pytest.mark.parametrize(
    ("of_index", "error", "message"),
    [
        ({"selects": 3}, TypeError, "selects of input 'index' is 3; expected a function of the call"),
        ({"selects": None, "points_to": 3}, TypeError, "points_to of input 'index' is 3"),
        ({"points_to": lambda call: ("f32", (3,))}, ValueError, "either choices or addresses"),
        ({"dtypes": ["f32"]}, ValueError, "'index' selects, and may be of f32; expected i32 or i64"),
        (
            {"selects": None, "points_to": lambda call: ("f32", (3,)), "dtypes": ["i32"]},
            ValueError,
            "holds addresses, and may be of i32; expected i64",
        ),
    ],
)
def test_inputs_that_cannot_be_meant_are_refused(of_index: Any, error: Any, message: str) -> None:
    refused(error, message, lambda: register_pick(**of_index))


@pytest.mark.parametrize(
    ("gave", "error", "message"),
    [
        (50, TypeError, "selects of input 'index' gave 50; expected a range or kiln.Selection"),
        ([1, 2], TypeError, "expected a range"),
        (range(0, 50, 2), ValueError, "without a step"),
        ([], ValueError, "gave 0 ranges"),
        ([range(50)] * 3, ValueError, r"gave 3 ranges for an input of shape \(8, 4\); expected one, or one for each"),
    ],
)
def test_selections_that_are_none_are_named(gave: Any, error: Any, message: str) -> None:
    op = register_pick(selects=lambda call: gave)
    with pytest.raises(error, match=message):
        op.spec.fill_inputs([numpy.empty(50, numpy.float32), numpy.empty((8, 4), numpy.int64)], {})


@pytest.mark.parametrize("gave", [3, ("f31", (3,)), ("f32", 3), ("f32", ("three",))])
def test_what_lies_at_addresses_must_be_a_dtype_and_a_shape(gave: Any) -> None:
    op = register_add_at(points_to=lambda call: gave)
    with pytest.raises(TypeError, match="points_to of input 'table' gave .* expected .dtype, shape."):
        op(numpy.zeros(1, numpy.int64), numpy.ones(3, numpy.float32))


def test_what_an_input_selects_is_part_of_a_definition() -> None:
    name = f"selected_twice_{next(_numbers)}"

    def define(stop: int) -> kiln.Op:
        return kiln.register_op(
            name,
            kernel=kiln.Kernel(TEXT, "pick", tunables={"BLOCK_SIZE": [64]}),
            inputs=["x", kiln.Input("index", selects=lambda call: range(stop))],
            outputs="out",
            launch=lambda call, config: kiln.Launch(1, arguments={"rows": 1}),
            dtypes=["f32"],
        )

    op = define(3)
    assert define(3) is op
    refused(ValueError, "already registered", lambda: define(4))
