"""What the documentation of kernels shows runs as it is printed."""

from __future__ import annotations

import pathlib
import re
import runpy

import kiln
import numpy as np
import pytest
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
