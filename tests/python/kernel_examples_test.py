"""What the documentation of kernels shows runs as it is printed."""

from __future__ import annotations

import pathlib
import re
import runpy
from typing import Any

import kiln
import numpy as np
import pytest
from nvrtc_here import needs_nvrtc
from script_process import ROOT, run_example


def test_the_fused_kernel_is_right_and_gets_tuned() -> None:
    ran = run_example("fused_kernel.py", "--cpu", "--rows", "37", "--columns", "1001", "--budget", "2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"against NumPy: largest error \S+, (9|10)\.\d% dropped: right", ran.stdout)
    assert "BLOCK_SIZE=256" in ran.stdout
    assert "times as fast" in ran.stdout


@pytest.mark.parametrize("arguments", [["--length", "130"], ["--length", "77", "--causal", "--head-size", "32"]])
def test_attention_is_right_and_gets_tuned(arguments: list[str]) -> None:
    ran = run_example("attention.py", "--cpu", "--budget", "1", *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"against NumPy: largest error \S+: right", ran.stdout)
    assert "NUM_STAGES=" in ran.stdout
    assert "TFLOP/s" in ran.stdout


def test_attention_reads_nothing_that_is_not_there() -> None:
    attention = runpy.run_path(str(ROOT / "examples/attention.py"))["attention"]
    q = np.zeros((2, 16, 32), np.float32)
    for wrong, what in [
        ((q, q[:1], q), r"k is f32 \(1, 16, 32\); expected what q is"),
        ((q, q, q[:, :8]), r"v is f32 \(2, 8, 32\)"),
        ((q[0], q[0], q[0]), r"q has shape \(16, 32\)"),
        ((q[:, :, :24].copy(),) * 3, "a head size of 16, 32, 64 or 128"),
    ]:
        with pytest.raises(ValueError, match=what):
            attention(*wrong)


def test_a_product_is_right_and_gets_tuned() -> None:
    ran = run_example("matmul.py", "--cpu", "--budget", "1", "--size", "97")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"97\^3 against NumPy: largest error \S+ of the largest: right", ran.stdout)
    assert "x as fast as matmul" in ran.stdout


@pytest.mark.parametrize("name", ["int4_matmul.py", "paged_attention.py"])
def test_an_example_that_only_checks_itself_is_right(name: str) -> None:
    ran = run_example(name)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"against NumPy: largest error \S+: right\n", ran.stdout)


#: Ops of examples whose texts users are shown, with a call that compiles and the lines that a text may have.
TEXTS: dict[str, tuple[str, str, int, list[tuple[str, tuple[int, ...]]], dict[str, Any]]] = {
    "tile_matmul": ("matmul", "matmul.hpp", 40, [("bf16", (256, 256))] * 2, {}),
    "tile_matmul, b along k": ("matmul", "matmul.hpp", 40, [("f16", (256, 256))] * 2, {"b_along_k": True}),
    "wrapped_matmul": ("matmul", "matmul_rows.hpp", 60, [("bf16", (256, 256))] * 2, {}),
    "matmul_of_rows": (
        "matmul",
        "matmul_rows.hpp",
        60,
        [("bf16", (256, 256)), ("i32", (64,)), ("bf16", (256, 256))],
        {},
    ),
    "int4_matmul": (
        "int4_matmul",
        "int4_matmul.hpp",
        40,
        [("bf16", (16, 256)), ("u8", (256, 128)), ("bf16", (2, 256)), ("bf16", (2, 256))],
        {},
    ),
    "attention": ("attention", "attention.hpp", 60, [("bf16", (2, 256, 64))] * 3, {}),
    "attention, causal": ("attention", "attention.hpp", 60, [("bf16", (2, 256, 128))] * 3, {"causal": True}),
    "paged_attention": (
        "paged_attention",
        "paged_attention.hpp",
        60,
        [("bf16", (4, 8, 128)), *[("bf16", (9, 16, 2, 128))] * 2, ("i32", (4, 2)), ("i32", (4,))],
        {},
    ),
}


#: Where the default is more than the sums of mma.sync have room for.
ELSEWHERE = {"attention": {"BLOCK_M": 64, "BLOCK_N": 64, "NUM_STAGES": 2, "num_warps": 4}}


@pytest.mark.parametrize("case", TEXTS)
def test_a_text_is_right_and_short_and_spills_nothing(case: str) -> None:
    module, file, lines, tensors, attributes = TEXTS[case]
    assert len((ROOT / "examples" / file).read_text().splitlines()) <= lines
    op = runpy.run_path(str(ROOT / f"examples/{module}.py"))[case.partition(",")[0].removeprefix("tile_")]
    report = kiln.check(op)
    assert report.ok, report
    needs_nvrtc()
    metas = [kiln.TensorMeta(dtype, shape) for dtype, shape in tensors]
    for target in ("sm_80", "sm_90a", "sm_120"):
        config = None if target == "sm_90a" else ELSEWHERE.get(module)
        (usage,) = kiln.inspect(op, *metas, emit="resources", target=target, config=config, **attributes).values()
        assert usage["registers"] > 0
        assert usage["spill_store_bytes"] == usage["stack_bytes"] == 0, target
        assert not usage["serializes_products"], target


def test_the_manual_runs_as_printed(tmp_path: pathlib.Path) -> None:
    text = (ROOT / "docs/python-kernels.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    tuning = 'kiln.autotune("scaled", x, alpha=3.0)'
    assert tuning in blocks[1]
    program = tmp_path / "manual.py"
    program.write_text("".join(blocks).replace(tuning, tuning[:-1] + ", budget_s=2, progress=False)"))
    names = runpy.run_path(str(program))
    np.testing.assert_array_equal(names["out"], 2 * names["x"])
    np.testing.assert_array_equal(names["y"], 3 * names["x"])
    assert kiln.check("scaled").ok
