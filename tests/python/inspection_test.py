"""kiln.inspect: what a call runs."""

from __future__ import annotations

import kiln
import numpy
import pytest
from nvrtc_here import needs_nvrtc
from refusal import refused


@pytest.fixture
def x() -> numpy.ndarray:
    return numpy.ones((8, 64), numpy.float32)


def test_texts_of_the_cpu(x: numpy.ndarray) -> None:
    assert "KILN_KERNEL" in kiln.inspect("add", x, x)
    assert "define" in kiln.inspect("add", x, x, emit="llvm-ir")
    assert "kiln_entry:" in kiln.inspect(kiln.ops.add, x, x, emit="asm")


def test_texts_of_a_gpu_that_is_not_here(x: numpy.ndarray) -> None:
    needs_nvrtc()
    assert ".target sm_90a" in kiln.inspect("add", x, x, emit="ptx", target="sm_90a")
    meta = kiln.TensorMeta("bf16", (4096, 4096))
    assert "bfloat16" in kiln.inspect("add", meta, meta, target="sm_90a")
    assert "global stores" in kiln.inspect("add", meta, meta, emit="costs", target="sm_90a")
    resources = kiln.inspect("add", meta, meta, emit="resources", target="sm_80")
    (usage,) = resources.values()
    assert usage["registers"] > 0
    assert usage["spill_store_bytes"] == 0
    assert usage["pipeline_shared_bytes"] == 0
    assert not usage["serializes_products"]
    assert 0 < usage["occupancy"]["share"] <= 1
    assert usage["occupancy"]["limited_by"]
    assert "loaded" not in usage


def test_the_plan(x: numpy.ndarray) -> None:
    plan = kiln.inspect("add", x, x, emit="plan", config={"BLOCK_SIZE": 256})
    assert plan["variant"] == "contiguous"
    assert plan["config"]["BLOCK_SIZE"] == 256
    assert plan["config_source"] == "given"
    assert plan["bytes"] == 3 * x.nbytes
    (kernel,) = plan["kernels"]
    assert kernel["grid"] == (2, 1, 1)
    assert kernel["kernel"].startswith("kiln::ops::elementwise_contiguous_kernel<")
    assert "num_warps" not in kernel  # of a GPU only
    on_gpu = kiln.inspect("add", x, x, emit="plan", target="sm_90a")
    assert on_gpu["target"] == "cuda:sm_90a"
    assert on_gpu["kernels"][0]["num_warps"] > 0
    assert on_gpu["kernels"][0]["copy_warps"] == 0


def test_the_plan_shows_what_was_tuned() -> None:
    x = numpy.ones(3001, numpy.float32)
    assert kiln.inspect("neg", x, emit="plan")["config_source"] == "default"
    table = kiln.autotune("neg", x, budget_s=2, progress=False)
    plan = kiln.inspect("neg", x, emit="plan")
    assert plan["config_source"] == "tuned"
    assert plan["config"] == table.chosen["config"]
    assert kiln.inspect("neg", x, emit="plan", target="sm_90a")["config_source"] == "default"


def test_no_data_is_read() -> None:
    huge = kiln.TensorMeta("f32", (1 << 20, 1 << 20))  # 4 TiB
    assert kiln.inspect("add", huge, huge, emit="plan")["bytes"] == 3 * 4 << 40


def test_attributes_and_tensors_by_name(x: numpy.ndarray) -> None:
    plan = kiln.inspect("add", x, y=x, alpha=2, emit="plan")
    assert plan == kiln.inspect("add", x, x, alpha=2, emit="plan")


def test_wrong_calls_are_refused(x: numpy.ndarray) -> None:
    refused(ValueError, "for GPUs", lambda: kiln.inspect("add", x, x, emit="ptx"))
    refused(ValueError, "for the CPU", lambda: kiln.inspect("add", x, x, emit="asm", target="sm_90a"))
    refused(ValueError, "'poem'", lambda: kiln.inspect("add", x, x, emit="poem"))
    refused(TypeError, "emit=None", lambda: kiln.inspect("add", x, x, emit=None))
    refused(TypeError, "device=0", lambda: kiln.inspect("add", x, x, device=0))
    refused(TypeError, "target=90", lambda: kiln.inspect("add", x, x, target=90))
    refused(ValueError, "exclude", lambda: kiln.inspect("add", x, x, device="cpu", target="sm_90a"))
    refused(ValueError, "cuda:77", lambda: kiln.inspect("add", x, x, device="cuda:77"))
    refused(ValueError, "sm_", lambda: kiln.inspect("add", x, x, target="hopper"))
    refused(ValueError, "did you mean", lambda: kiln.inspect("ad", x, x))
    refused(TypeError, "numpy.asarray", lambda: kiln.inspect("add", x, [1.0]))
