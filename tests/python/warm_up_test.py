"""kiln.warm_up: calls compiled and loaded before anything is recorded."""

from __future__ import annotations

from typing import Any

import kiln
import numpy
import pytest


def test_warm_up_takes_what_calls_take(random: numpy.random.Generator) -> None:
    x = random.standard_normal((3, 17), dtype=numpy.float32)
    out = numpy.empty((3, 17), numpy.float32)
    kiln.warm_up(
        [
            ("tan", [x]),
            ("tan", [x], {"out": out, "config": {"BLOCK_SIZE": 256}, "tuning": "off", "overlap_previous": True}),
            ("cos", [kiln.TensorMeta("f32", (3, 17))], {"device": "cpu"}),
            ("concat", [[x, x]], {"dim": 1}),
            ("linear", [x, x, None]),
            ("uniform", [], {"size": [7], "seed": 1, "device": "cpu"}),
        ],
        num_threads=2,
    )
    with kiln.capture(device="cpu") as graph:
        kiln.ops.tan(x)
        kiln.ops.tan(x, out=out, config={"BLOCK_SIZE": 256})
        kiln.ops.cos(x)
        kiln.ops.concat([x, x], dim=1)
        kiln.ops.linear(x, x)
        kiln.ops.uniform(size=[7], seed=1)
    assert graph.num_calls == 6
    kiln.warm_up([])


def test_any_rows_of_a_weight_are_warm(random: numpy.random.Generator) -> None:
    x = random.standard_normal((64, 130), dtype=numpy.float32)
    weight = random.standard_normal((96, 130), dtype=numpy.float32)
    kiln.warm_up([("linear", [kiln.TensorMeta("f32", x.shape), weight], {"any_rows": True, "device": "cpu"})])
    with kiln.capture(device="cpu") as graph:  # refuses what is cold
        for rows in range(1, 65):
            kiln.ops.linear(x[:rows], weight)
    assert graph.num_calls == 64


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("add", r"call 1: expected \(op, tensors\)"),
        (("add",), r"call 1: expected \(op, tensors\)"),
        (("add", [], [], []), r"call 1: expected \(op, tensors\)"),
        (("ad", []), "call 1: .*did you mean"),
        (("neg", [numpy.ones(3)], {"dim": 1}), "call 1 .*dim"),
        (("neg", [[1.0]]), "call 1: .*expected an array"),
        (("softmax", [numpy.ones(3)], {"dim": 5}), r"call 1 \(op 'softmax'\)"),
        (("neg", [numpy.ones(3)], {"device": "cuda:99"}), "call 1: .*cuda:99"),
        (("neg", [numpy.ones(3)], {"tuning": "often"}), "call 1: .*often"),
        (("neg", [numpy.ones(3)], {"any_rows": True}), "call 1 .*any_rows.*no rows"),
        (("neg", [numpy.ones((3, 3))], {"any_rows": True, "out": numpy.ones((3, 3))}), "call 1 .*any_rows.*output"),
    ],
)
def test_warm_up_says_which_call_is_wrong(call: Any, says: str) -> None:
    good = ("neg", [numpy.ones(3)])
    with pytest.raises((ValueError, TypeError), match=says):
        kiln.warm_up([good, call, good])
    with pytest.raises(ValueError, match="num_threads=-1"):
        kiln.warm_up([good], num_threads=-1)
