"""The examples on KV offload and torch, run as written."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

import kiln
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(kiln.__file__).parent.parent)}
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_kv_offload() -> None:
    done = run("kv_offload.py", "--steps", "4")
    assert done.returncode == 0, done.stderr
    assert "stored rows: right" in done.stdout


def test_kv_offload_says_what_it_expects() -> None:
    done = run("kv_offload.py", "--top", "0")
    assert done.returncode == 2 and "expected 0 < --top" in done.stderr


def test_torch_gpu() -> None:
    done = run("torch_gpu.py")
    if importlib.util.find_spec("torch") is None:
        assert done.returncode == 1 and "pip install torch" in done.stderr
        pytest.skip("torch is not installed: only its absence was tested")
    assert done.returncode == 0, done.stderr
    assert "three ops agree with torch's" in done.stdout
