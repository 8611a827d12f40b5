"""The examples on KV offload and torch, run as written."""

from __future__ import annotations

import importlib.util

import pytest
from script_process import run_example


def test_kv_offload() -> None:
    done = run_example("kv_offload.py", "--steps", "4")
    assert done.returncode == 0, done.stderr
    assert "stored rows: right" in done.stdout


def test_kv_offload_says_what_it_expects() -> None:
    done = run_example("kv_offload.py", "--top", "0")
    assert done.returncode == 2 and "expected 0 < --top" in done.stderr


def test_torch_gpu() -> None:
    done = run_example("torch_gpu.py")
    if importlib.util.find_spec("torch") is None:
        assert done.returncode == 1 and "pip install torch" in done.stderr
        pytest.skip("torch is not installed: only its absence was tested")
    assert done.returncode == 0, done.stderr
    assert "three ops agree with torch's" in done.stdout
