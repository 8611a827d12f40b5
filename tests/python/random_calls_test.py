"""benchmarks/random_calls.py: the calls that it draws are legal, the figures of its summary right, and a run of it measures and compares."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
from typing import Any

import kiln
import pytest
from script_process import PATIENCE_S, ROOT, environment

sys.path.insert(0, str(ROOT / "benchmarks"))

import call_report
import result_file
from call_arrays import CallArrays, error_in_tolerances, out_of, wide_result
from call_draw import FAMILIES, draw_call
from call_library import KilnLibrary, NumpyLibrary
from drawn_extent import MOST_ELEMENTS, MOST_PRODUCT_FLOPS

NUM_DRAWN = 400
NUM_RUN = 25
MOST_RUN_BYTES = 200_000


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "random_calls.py"), *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_S,
    )


def measured_row(index: int, speed: float, peer_us: float, **changes: Any) -> dict[str, Any]:
    row = {"family": "other", "index": index, "kind": "unary", "call": f"exp f32 {index}", "speed": speed}
    row |= {"error": 0.5, "peer_error": 0.4}
    times = {"kiln": {"median_us": peer_us / speed}, "peer": {"median_us": peer_us}}
    return row | times | changes


def test_a_call_depends_on_its_seed_family_and_number_alone() -> None:
    for family in FAMILIES:
        calls = [draw_call(5, family, index) for index in range(50)]
        assert [draw_call(5, family, index) for index in reversed(range(50))] == calls[::-1]
        assert [draw_call(6, family, index) for index in range(50)] != calls
        assert len(set(map(str, calls))) > 40


@pytest.mark.parametrize("family", FAMILIES)
def test_the_registry_agrees_with_what_is_drawn(family: str) -> None:
    for call in (draw_call(1, family, index) for index in range(NUM_DRAWN)):
        metas = [kiln.TensorMeta(drawn.dtype, drawn.shape) for drawn in call.inputs]
        (out,) = kiln.infer_outputs(call.op, *metas, **call.attributes)[:1]
        assert (tuple(out.shape), str(out.dtype)) == (call.out_shape, call.out_dtype), call
        assert math.prod(call.out_shape) <= MOST_ELEMENTS, call
        assert all(0 < drawn.elements <= MOST_ELEMENTS for drawn in call.inputs), call
        assert family != "products" or call.flops <= MOST_PRODUCT_FLOPS, call


@pytest.mark.parametrize("family", FAMILIES)
def test_kiln_and_numpy_make_the_same_call(family: str) -> None:
    drawn = (draw_call(2, family, index) for index in range(NUM_DRAWN))
    calls = [call for call in drawn if call.touched_bytes <= MOST_RUN_BYTES][:NUM_RUN]
    arrays = CallArrays()
    for call in calls:
        inputs = arrays.inputs(call)
        assert [x.shape for x in inputs] == [drawn.shape for drawn in call.inputs]
        expected = wide_result(call, inputs)
        for library in (KilnLibrary(), NumpyLibrary()):
            error = error_in_tolerances(call, library.operation(call, inputs, out_of(call))(), expected)
            assert error is not None and error <= 1, f"{call}: {error} by {type(library).__name__}"


def test_a_wrong_result_is_seen() -> None:
    call = next(call for index in range(NUM_DRAWN) if (call := draw_call(1, "products", index)).out_dtype == "f32")
    expected = wide_result(call, CallArrays().inputs(call))
    right = expected.astype("f4")
    wrong = right.copy()
    wrong.flat[-1] += 1
    assert error_in_tolerances(call, right, expected) <= 1
    assert error_in_tolerances(call, wrong, expected) > 1
    wrong.flat[-1] = math.nan
    assert error_in_tolerances(call, wrong, expected) is None
    assert error_in_tolerances(call, expected, expected) is None  # f64 is not what the call gives
    assert error_in_tolerances(call, right[..., None], expected) is None


def test_the_figures_of_made_up_rows() -> None:
    rows = [measured_row(0, 4, 50), measured_row(1, 1, 100), measured_row(2, 0.5, 1000), measured_row(3, 0.94, 10)]
    failed = {"family": "other", "index": 4, "kind": "scan", "call": "cumsum f32 4", "failed": "no kernel"}
    wrong = measured_row(5, 2, 1, family="products", error=1.5)
    no_number = measured_row(6, 8, 1, family="products", error=None)
    hard = measured_row(7, 8, 1, family="products", error=1.5, peer_error=1.1)  # for everybody
    families = call_report.figures_of_families([*rows, failed, wrong, no_number, hard])
    found = families["other"]
    assert found["all"] == {
        "calls": 4,
        "geometric_mean": pytest.approx((4 * 1 * 0.5 * 0.94) ** 0.25),
        "share_slower": 0.5,
        "p5": 0.5,
        "worst": 0.5,
    }
    assert found["long"]["calls"] == 2
    assert found["long"]["geometric_mean"] == pytest.approx(0.5**0.5)
    assert (found["wrong"], found["failed"], list(found["kinds"])) == (0, 1, ["unary"])
    assert (families["products"]["wrong"], families["products"]["failed"]) == (2, 0)
    assert families["products"]["long"] is None
    text = call_report.text_of([*rows, failed, wrong], "NumPy")
    assert "failed: other/4 cumsum f32 4: no kernel" in text
    assert "wrong: products/5 exp f32 5: 1.5 tolerances from the result in f64, NumPy's 0.4" in text
    worst = text[text.index("the worst of other") :].splitlines()[1:5]
    assert [line.split()[-3:] for line in worst] == [["exp", "f32", str(index)] for index in (2, 3, 1, 0)]


def test_a_run_measures_and_goes_on_from_its_rows(tmp_path: pathlib.Path) -> None:
    rows = tmp_path / "rows.jsonl"
    chosen = ["1", "--calls", "30", "--only", "*f32 ?*x? *", "--rows", str(rows)]
    listed = run_command(*chosen, "--list").stdout.splitlines()
    assert 2 <= len(listed) <= 20
    unfinished = run_command(*chosen, "--seconds", "0")
    assert unfinished.returncode == 3, unfinished.stderr
    assert f"{len(listed)} calls are left" in unfinished.stderr
    done = run_command(*chosen)
    assert done.returncode == 0, done.stderr
    result = result_file.parse(done.stdout)
    assert [f"{row['family']}/{row['index']}" for row in result["rows"]] == [line.split()[0] for line in listed]
    for row in result["rows"]:
        assert row["speed"] == pytest.approx(row["peer"]["median_us"] / row["kiln"]["median_us"], rel=1e-2)
        assert row["cold_ms"] > 0
        assert 0 <= row["error"] <= 1
    kept = rows.read_text()
    assert [json.loads(line)["index"] for line in kept.splitlines()[1:]] == [row["index"] for row in result["rows"]]
    again = run_command(*chosen)
    assert again.returncode == 0, again.stderr
    assert rows.read_text() == kept
    assert result_file.parse(again.stdout)["rows"] == result["rows"]
    other = run_command("2", "--rows", str(rows))
    assert other.returncode == 2
    assert "'seed': 1" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["one"], "invalid int value: 'one'"),
        (["1", "--calls", "0"], "--calls 0: expected at least 1"),
        (["1", "--threads", "100000"], "--threads 100000: expected 1 to"),
        (["1", "--family", "sums"], "'sums'"),
        (["1", "--only", "nothing*"], "--only nothing*: no call"),
        (["1", "--cpu-features", "z80"], "'z80'"),
        (["1", "--rows", "/nowhere/rows.jsonl"], "there is no folder /nowhere"),
    ],
)
def test_wrong_arguments_are_told_in_a_line(arguments: list[str], said: str) -> None:
    run = run_command(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert said in run.stderr
