"""ONNX's Attention made of Kiln's ops, over the conformance cases in the onnx package. docs/attention.md has what is made of what as a table."""

from __future__ import annotations

import dataclasses
from typing import Any

import kiln
import ml_dtypes
import numpy
import onnx.backend.test.case.node.attention  # its cases are made while it is imported
import pytest
from onnx.backend.test.case import node

Array = numpy.ndarray[Any, Any]
Arrays = dict[str, Array]

PREFIX = "test_attention_"
COUNT = 93
# No op returns scores: of these cases, of all their outputs, qk_matmul_output alone is not compared.
WITHOUT_SCORES = {
    "23_fullymasked_qk_matmul_output_mode3_zero",
    "24_fullymasked_qk_matmul_output_mode3_zero",
    "24_qk_matmul_output_mode3_softmax_precision",
    "3d_with_past_and_present_qk_matmul",
    "3d_with_past_and_present_qk_matmul_bias",
    "3d_with_past_and_present_qk_matmul_softcap",
    "3d_with_past_and_present_qk_matmul_softmax",
    "4d_with_past_and_present_qk_matmul",
    "4d_with_past_and_present_qk_matmul_bias",
    "4d_with_past_and_present_qk_matmul_bias_3d_mask",
    "4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "4d_with_past_and_present_qk_matmul_bias_4d_mask",
    "4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
    "4d_with_qk_matmul",
    "4d_with_qk_matmul_bias",
    "4d_with_qk_matmul_softcap",
    "4d_with_qk_matmul_softmax",
    "local_window_gqa_rank4_mask",
}

# Relative, with nothing for numbers near zero: values are positive, and rows that see no key are zeros exactly.
# f32: sums of at most 18 terms, in another order. 16 bits: the cases' own outputs come of scores that were rounded to these bits. Scores lie
# below 4, where that is up to one epsilon, and a weight is off by as much; values times weights and Y are rounded on either side.
TOLERANCES = {
    numpy.dtype(numpy.float32): 32 * float(numpy.finfo(numpy.float32).eps),
    numpy.dtype(numpy.float16): 3 * float(numpy.finfo(numpy.float16).eps),
    numpy.dtype(ml_dtypes.bfloat16): 3 * float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps),
}

DEFAULTS = {
    "is_causal": 0, "kv_num_heads": None, "left_window_size": -1, "q_num_heads": None, "qk_matmul_output_mode": 0,
    "right_window_size": -1, "scale": None, "softcap": 0.0, "softmax_precision": None,
}  # fmt: skip


@dataclasses.dataclass
class Case:
    name: str
    inputs: Arrays
    attributes: dict[str, Any]
    outputs: Arrays


def read(case: Any) -> Case:
    (call,) = case.model.graph.node
    ((inputs, outputs),) = case.data_sets
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in call.attribute}
    assert call.op_type == "Attention" and attributes.keys() <= DEFAULTS.keys(), call
    return Case(
        case.name.removeprefix(PREFIX),
        dict(zip(filter(None, call.input), inputs, strict=True)),
        DEFAULTS | attributes,
        dict(zip(filter(None, call.output), outputs, strict=True)),
    )


# The public way to the cases, collect_testcases, makes those of all operators first, which takes longer than all else here.
PACKAGED = [case for case in node._NodeTestCases if case.name.startswith(PREFIX)]
# Those that are left out have the same data beside a graph of other operators, which is what Attention means.
CASES = [read(case) for case in PACKAGED if "_expanded" not in case.name]


def heads_first(x: Array, heads: int) -> Array:
    """[batch, heads, length, head dim], as four dimensions are, of [batch, length, heads * head dim]."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def of_padded(q: Array, k: Array, v: Array, lengths: Array, **options: Any) -> Array:
    """Each request's keys are a page of its own, of which so many are there."""
    table = numpy.arange(len(lengths))[:, None]
    out = kiln.ops.attention_paged(q.transpose(0, 2, 1, 3), k, v, table, lengths, layout="HND", **options)
    return out.transpose(0, 2, 1, 3)


def without_padding(mask: Array, queries: int, lengths: Array, left: int, right: int) -> Array:
    """The mask with all hidden that lengths and windows hide, because attention has one length and one place for all requests."""
    key = numpy.arange(mask.shape[-1])
    lengths = lengths[:, None, None, None]
    place = lengths - queries + numpy.arange(queries)[:, None]
    sees = key < lengths
    if left >= 0:
        sees = sees & (key >= place - left)
    if right >= 0:
        sees = sees & (key <= place + right)
    hidden = False if mask.dtype == numpy.bool_ else -numpy.inf
    return numpy.where(sees, mask, numpy.array(hidden, mask.dtype))


def window_here(window: tuple[int, int], past: int, queries: int, keys: int) -> tuple[int, int]:
    """ONNX's query i stands at key past + i, attention's at keys - queries + i."""
    shift = past + queries - keys
    left, right = window
    assert (left < 0 or left >= shift) and (right < 0 or right >= -shift), "a window that leaves out its own place"
    return (left if left < 0 else left - shift, right if right < 0 else right + shift)


def onnx_attention(inputs: Arrays, attributes: dict[str, Any]) -> Arrays:
    """All outputs of the operator but qk_matmul_output."""
    q = heads_first(inputs["Q"], attributes["q_num_heads"])
    present = {}
    for name in ("key", "value"):
        new = heads_first(inputs[name[0].upper()], attributes["kv_num_heads"])
        past = inputs.get(f"past_{name}")
        present[f"present_{name}"] = new if past is None else kiln.ops.concat(past, new, dim=2)
    k, v = present.values()
    mask, lengths = inputs.get("attn_mask"), inputs.get("nonpad_kv_seqlen")
    if mask is not None:  # it hides the keys that it is too short for
        k, v = k[:, :, : mask.shape[-1]], v[:, :, : mask.shape[-1]]

    past, queries = inputs["past_key"].shape[2] if "past_key" in inputs else 0, q.shape[2]
    is_causal = bool(attributes["is_causal"])
    left, right = attributes["left_window_size"], 0 if is_causal else attributes["right_window_size"]
    options = {"scale": attributes["scale"], "softcap": attributes["softcap"]}
    if lengths is not None and mask is None:
        causal = "bottom_right" if is_causal else "none"
        y = of_padded(q, k, v, lengths, causal=causal, window=(left, right), **options)
    else:
        if lengths is not None:
            mask = without_padding(mask, queries, lengths, left, right)
        elif is_causal and past == 0:
            options |= {"causal": "top_left", "window": (left, -1)}
        else:
            if right >= 0:  # keys that no query sees
                k, v = k[:, :, : past + queries + right], v[:, :, : past + queries + right]
            options["window"] = window_here((left, right), past, queries, k.shape[2])
        if mask is not None:
            mask = mask[..., : k.shape[2]]
        y = kiln.ops.attention(q, k, v, mask, layout="BHSD", **options)
    if inputs["Q"].ndim == 3:
        y = y.transpose(0, 2, 1, 3).reshape(*inputs["Q"].shape[:2], -1)
    return {"Y": y, **present}


def test_the_package_has_the_cases_that_are_known() -> None:
    names = {case.name for case in CASES}
    assert len(CASES) == len(names) == COUNT
    assert {case.name for case in CASES if "qk_matmul_output" in case.outputs} == WITHOUT_SCORES
    data = {id(case.data_sets[0][1]) for case in PACKAGED}
    assert len(data) == COUNT, "a case that is left out has data of its own"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance(case: Case) -> None:
    made = onnx_attention(case.inputs, case.attributes)
    assert case.outputs.keys() - made.keys() == ({"qk_matmul_output"} if case.name in WITHOUT_SCORES else set())
    for name in case.outputs.keys() & made.keys():
        got, expected = made[name], case.outputs[name]
        assert got.dtype == expected.dtype and got.shape == expected.shape, name
        if name == "Y":
            wide, tolerance = numpy.float64, TOLERANCES[got.dtype]
            numpy.testing.assert_allclose(
                got.astype(wide), expected.astype(wide), rtol=tolerance, atol=0, equal_nan=False
            )
        else:
            assert numpy.array_equal(got, expected), name
