"""benchmarks/random_calls.py --device cuda: the calls that it draws are legal, torch makes the same ones, their sectors and the figures of its summary are right; no GPU is needed."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import kiln
import numpy as np
import pytest
from random_calls_test import run_command
from script_process import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu_report
import result_file
from call_sectors import SECTOR_BYTES, call_sectors, sectors_of
from drawn_call import ITEM_BYTES, DrawnCall, DrawnInput, drawn_call
from gpu_call_draw import FAMILIES, MOST_BYTES, PRODUCT_TFLOPS, PRODUCT_US, draw_gpu_call

NUM_DRAWN = 400
NUM_RUN = 40
MOST_RUN_BYTES = 200_000
MOST_RUN_FLOPS = 1e7
RUN = {"seed": 1, "device": "cuda", "gpu": "a GPU", "torch": "2", "kiln": "0"}


def drawn(family: str, seed: int = 1) -> list[DrawnCall]:
    return [draw_gpu_call(seed, family, index) for index in range(NUM_DRAWN)]


def short(family: str) -> list[DrawnCall]:
    calls = drawn(family, seed=2)
    return [call for call in calls if call.stored_bytes <= MOST_RUN_BYTES and call.flops <= MOST_RUN_FLOPS][:NUM_RUN]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_depends_on_its_seed_family_and_number_alone(family: str) -> None:
    calls = [draw_gpu_call(5, family, index) for index in range(50)]
    assert [draw_gpu_call(5, family, index) for index in reversed(range(50))] == calls[::-1]
    assert [draw_gpu_call(6, family, index) for index in range(50)] != calls
    assert len(set(map(str, calls))) > 40


@pytest.mark.parametrize("family", FAMILIES)
def test_the_registry_agrees_with_what_is_drawn(family: str) -> None:
    for call in drawn(family):
        metas = [kiln.TensorMeta(given.dtype, given.shape) for given in call.inputs]
        (out,) = kiln.infer_outputs(call.op, *metas, **call.attributes)[:1]
        assert (tuple(out.shape), str(out.dtype)) == (call.out_shape, call.out_dtype), call
        assert call.stored_bytes <= MOST_BYTES, call
        # Extents are rounded up after they were bounded.
        assert family != "products" or call.flops <= 2 * PRODUCT_US * 1e6 * PRODUCT_TFLOPS[call.precision], call


def test_products_are_of_all_kinds_and_precisions() -> None:
    calls = drawn("products")
    kinds = {"regular", "up to 16 rows", "batches", "k up to 128", "rows off 16 bytes", "bias and activation"}
    assert kinds <= {call.kind for call in calls}
    assert {call.precision for call in calls} == set(PRODUCT_TFLOPS)
    layouts = {tuple(given.layout for given in call.inputs) for call in calls if call.op == "matmul"}
    assert {(a, b) for a in ("dense", "transposed") for b in ("dense", "transposed")} <= layouts
    assert {"none", "relu", "silu", "gelu"} == {c.attributes["activation"] for c in calls if c.op == "linear"}


def counted_sectors(given: DrawnInput) -> int:
    """By a byte array in the place of the memory."""
    item = ITEM_BYTES[given.dtype]
    places = np.arange(np.prod(given.stored_shape, dtype=int)).reshape(given.stored_shape)
    first = given.view_of(places).reshape(-1) * item
    return len(np.unique(np.concatenate([first, first + item - 1]) // SECTOR_BYTES))


@pytest.mark.parametrize("layout", ["dense", "transposed", "padded", "every second", "inner"])
@pytest.mark.parametrize("dtype", ["bf16", "f32", "i64"])
def test_sectors_are_those_that_a_view_touches(dtype: str, layout: str) -> None:
    for shape in ((1, 1), (7, 1), (1, 7), (33, 17), (5, 200), (64, 64), (3, 9, 21), (2, 40, 3)):
        given = DrawnInput(shape, dtype, layout)
        # Where a gap between rows may hold a whole sector or not, it is counted as touched.
        assert counted_sectors(given) <= sectors_of(given) <= 1.1 * counted_sectors(given) + 1, given


def test_the_sectors_of_calls() -> None:
    x, index = DrawnInput((1000, 64), "f32"), DrawnInput((10,), "i64", "dense", "index", 1000)
    assert call_sectors(drawn_call("exp", [x], (1000, 64))) == 2 * 8000
    assert call_sectors(drawn_call("fill", [x], (1000, 64), attributes={"value": 3})) == 8000
    rows = drawn_call("index_select", [x, index], (10, 64), attributes={"dim": 0})
    assert call_sectors(rows) == pytest.approx(80 + 3 + 80, rel=0.01)
    column = DrawnInput((1,), "i64", "dense", "index", 64)
    assert call_sectors(drawn_call("index_select", [x, column], (1000, 1), attributes={"dim": 1})) == 125 + 1 + 1000


def measured_row(index: int, speed: float, kiln_us: float, **changes: Any) -> dict[str, Any]:
    row = {"family": "products", "index": index, "kind": "regular", "op": "matmul", "call": f"matmul {index}"}
    row |= {"dtype": "bf16", "variant": "sm90", "config": "A=1", "error": 0.5, "peer_error": 0.4, "speed": speed}
    row |= {"kiln": {"median_us": kiln_us}, "peer": {"median_us": kiln_us * speed}, "roof_us": kiln_us / 2}
    return row | {"kiln_of_roof": 0.5, "peer_of_roof": 0.5 / speed} | changes


def made_up_rows() -> list[dict[str, Any]]:
    tuned = {"tuned": {"median_us": 80.0}, "tuning_gain": 1.25, "tuned_config": "A=2"}
    stayed = {"tuned": {"median_us": 10.0}, "tuning_gain": 1.0, "tuned_config": "A=1"}
    return [measured_row(0, 0.5, 100.0, **tuned), measured_row(1, 2.0, 10.0, **stayed), measured_row(2, 1.0, 30.0)]


def test_the_figures_of_made_up_rows() -> None:
    failed = {"family": "products", "index": 3, "kind": "batches", "op": "matmul", "call": "m", "dtype": "f16"}
    rows = [*made_up_rows(), failed | {"failed": "no kernel"}, measured_row(4, 1.0, 5.0, dtype="tf32", error=None)]
    found = gpu_report.figures_of_families(rows)["products"]
    assert found["all"]["geometric_mean"] == pytest.approx(1)
    assert found["all"]["share_slower"] == 0.25
    assert found["roofline"] == {"calls": 2, "kiln": 0.5, "peer": 0.75}
    expected = {"calls": 2, "geometric_mean": pytest.approx(1.25**0.5), "share_slower": 0.5, "worst": 1.25}
    assert found["tuning_gain"] == expected
    assert (found["wrong"], found["failed"], list(found["groups"])) == (1, 1, ["regular", "in bf16", "in tf32"])
    text = gpu_report.text_of(rows, "torch")
    assert "products/0 matmul 0 [sm90: A=1 -> A=2]" in text
    assert "products/1 matmul 1 [sm90: A=1 -> A=1]" not in text
    assert text.index("products/0 matmul 0 [sm90: A=1]") < text.index("products/2 matmul 2 [sm90: A=1]")
    assert "failed: products/3 m: no kernel" in text


def test_listing_needs_no_gpu() -> None:
    done = run_command("1", "--calls", "5", "--device", "cuda", "--list")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [f"{family}/{i}" for i in range(5) for family in FAMILIES]
    assert lines[0].endswith(str(draw_gpu_call(1, "products", 0)))


def test_rows_are_told_of_without_a_gpu(tmp_path: pathlib.Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(line) + "\n" for line in (RUN, *made_up_rows())))
    chosen = ["1", "--device", "cuda", "--calls", "3", "--family", "products", "--rows", str(rows)]
    done = run_command(*chosen, "--tuned", "2")
    assert done.returncode == 0, done.stderr
    assert result_file.parse(done.stdout)["gpu"] == "a GPU"
    left = run_command(*chosen, "--tuned", "3", "--seconds", "0")  # the third is to be tuned, and was not
    assert left.returncode == 3
    assert "1 calls are left" in left.stderr
    other = run_command("1", "--device", "cuda", "--threads", "2")
    assert other.returncode == 2
    assert "--threads, --cpu-features and --peer are the CPU's" in other.stderr


@pytest.mark.parametrize("family", FAMILIES)
def test_kiln_and_torch_make_the_same_call(family: str) -> None:
    pytest.importorskip("torch")
    from torch_arrays import GuardedResult, error_in_tolerances, exact_result, inputs_of
    from torch_call import torch_calls

    for call in short(family):
        inputs, result = inputs_of(call, "cpu"), GuardedResult(call, "cpu")
        expected = exact_result(call, inputs)
        ways = torch_calls(call.op, inputs, call.attributes, result.out)
        resolved = kiln.resolve(call.op, *inputs, out=result.out, **call.attributes)
        result.reset()
        resolved(*inputs, out=result.out)
        error = error_in_tolerances(call, inputs, result.out, expected)
        assert error is not None and error <= 1, f"{call}: {error}"
        assert result.is_guarded(), call
        for name, way in ways.items():
            result.reset()
            assert error_in_tolerances(call, inputs, way(), expected) is not None, f"{call}: {name}"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_result_is_seen(family: str) -> None:
    pytest.importorskip("torch")
    from torch_arrays import GuardedResult, error_in_tolerances, exact_result, inputs_of

    for call in short(family):
        inputs, result = inputs_of(call, "cpu"), GuardedResult(call, "cpu")
        expected = exact_result(call, inputs)
        result.reset()  # nothing was written
        assert error_in_tolerances(call, inputs, result.out, expected) is None, call
        right = expected.to(result.out.dtype)
        result.out.copy_(right)
        assert result.is_guarded()
        assert error_in_tolerances(call, inputs, result.out, expected) is not None, call
        if call.op not in ("argmax", "argmin"):
            last = result.out.reshape(-1)[-1:]
            last.copy_(~last if call.out_dtype == "bool" else last * 2 + 10)
            error = error_in_tolerances(call, inputs, result.out, expected)
            assert error is None or error > 1, call
        result.memory[0] = 0
        assert not result.is_guarded()
