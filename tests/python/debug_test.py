"""kiln.debug_op: one call, looked at closely."""

from __future__ import annotations

import kiln
import numpy
import pytest
from random_arrays import normal
from refusal import refused

Random = numpy.random.Generator


def test_what_a_report_says(random: Random) -> None:
    x, weight = normal(random, 13, 100), normal(random, 100)
    x[3, 4], x[5, 6] = numpy.nan, numpy.inf
    report = kiln.debug_op("rms_norm", x, weight=weight, eps=1e-6)
    assert (report.op, report.device, report.error) == ("rms_norm", "cpu", "")
    assert report.attributes["eps"] == 1e-6
    assert report.ok
    first, second = report.inputs
    assert (first["name"], second["name"]) == ("x", "weight")
    assert (first["layout"].shape, first["layout"].dtype) == ((13, 100), kiln.DType.f32)
    assert first["layout"].data_ptr == x.ctypes.data
    assert x.ctypes.data % first["alignment_bytes"] == 0
    statistics = first["before"]
    assert (statistics["num_elements"], statistics["num_nan"], statistics["num_inf"]) == (1300, 1, 1)
    finite = x[numpy.isfinite(x)]
    assert (statistics["min"], statistics["max"]) == (finite.min(), finite.max())
    assert statistics["mean"] == pytest.approx(finite.mean(dtype=numpy.float64), abs=1e-6)
    assert first["after"] is None and not first["is_changed"]
    (output,) = report.outputs
    assert output["after"]["num_nan"] >= 100
    (result,) = report.results
    numpy.testing.assert_array_equal(result, kiln.ops.rms_norm(x, weight, eps=1e-6))
    (comparison,) = report.comparisons
    assert comparison["is_compared"] and comparison["num_wrong"] == 0 and comparison["num_elements"] == 1300
    assert comparison["max_error"] >= 0 and comparison["relative_tolerance"] > 0
    assert report.plan is not None and report.plan.kernels
    assert report.first_us is not None and report.first_us > 0
    assert report.warm_us is not None and report.warm_calls > 0
    assert report.memory_before is not None and report.memory_before["total_bytes"] > 0
    text = str(report)
    assert "1 NaN" in text and "rms_norm" in text and "reference" in text
    assert repr(report) == text
    again = kiln.debug_op("rms_norm", x, weight, eps=1e-6)
    assert again.was_planned


def test_options_are_those_of_a_call(random: Random) -> None:
    x = normal(random, 1000)
    out = numpy.full(1000, numpy.nan, numpy.float32)
    report = kiln.debug_op(
        kiln.ops.add, x, x, alpha=2.0, out=out, config={"BLOCK_SIZE": 256}, tuning="off", overlap_previous=True
    )
    assert report.results[0] is out
    numpy.testing.assert_allclose(out, 3 * x, rtol=1e-6)
    assert report.plan is not None and report.plan.config["BLOCK_SIZE"] == 256
    report = kiln.debug_op("add", x, alpha=1.0, other=2.0)
    assert report.inputs[-1]["name"] == "x" or report.inputs[-1]["is_absent"]
    numpy.testing.assert_array_equal(report.results[0], x + 2)


def test_integers_are_exact() -> None:
    x = numpy.array([2**62 + 1, -(2**63), 5], numpy.int64)
    statistics = kiln.debug_op("neg", x[:1]).inputs[0]["before"]
    assert statistics["min"] == statistics["max"] == 2**62 + 1
    statistics = kiln.debug_op("copy", x).inputs[0]["before"]
    assert (statistics["min"], statistics["max"]) == (-(2**63), 2**62 + 1)


def test_changed_inputs_are_left_as_one_call_leaves_them(random: Random) -> None:
    source, cache = normal(random, 50, 64), numpy.zeros((10, 64), numpy.float32)
    pairs = numpy.array([[[7, 0], [20, 3]]], numpy.int64)
    report = kiln.debug_op("sparse_kv_gather", cache, source, pairs)
    assert report.results[0] is cache and report.ok
    numpy.testing.assert_array_equal(cache[[0, 3]], source[[7, 20]])
    assert report.inputs[0]["is_changed"]
    assert report.inputs[0]["before"]["max"] == 0
    assert report.inputs[0]["after"]["max"] == cache.max()
    read_only = cache.copy()
    read_only.flags.writeable = False
    refused(ValueError, "read-only", lambda: kiln.debug_op("sparse_kv_gather", read_only, source, pairs))


KERNEL = """
#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void one_more(const T* x, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets, mask) + T(1), mask);
}
"""


def test_a_wrong_kernel_is_found(random: Random) -> None:
    kernel = kiln.Kernel(
        KERNEL, "one_more", grid=lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]), tunables={"BLOCK_SIZE": [128]}
    )
    kiln.register_op(
        "debug.wrong",
        kernel=kernel,
        inputs=["x"],
        outputs=["out"],
        dtypes=["f32"],
        reference=lambda x: numpy.where(x > 0, x + 1, x),
        examples=[([("f32", (1000,))], {})],
    )
    x = normal(random, 1000)
    report = kiln.debug_op("debug.wrong", x)
    assert not report.ok and report.error == ""
    numpy.testing.assert_array_equal(report.results[0], x + 1)
    (comparison,) = report.comparisons
    assert comparison["num_wrong"] == (x <= 0).sum()
    assert comparison["worst_index"].startswith("[")
    assert float(comparison["actual"]) - float(comparison["expected"]) == pytest.approx(1, abs=1e-5)


def test_a_call_that_fails_is_in_the_report(random: Random) -> None:
    broken = kiln.Kernel(
        KERNEL.replace("T(1)", "T(one)").replace("one_more", "broken"),
        "broken",
        grid=lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]),
        tunables={"BLOCK_SIZE": [128]},
    )
    kiln.register_op("debug.broken", kernel=broken, inputs=["x"], outputs=["out"], dtypes=["f32"])
    report = kiln.debug_op("debug.broken", normal(random, 10))
    assert not report.ok and report.results == [] and report.warm_us is None
    assert "one" in report.error
    assert report.inputs[0]["before"]["num_elements"] == 10


def test_bad_calls_are_refused(random: Random) -> None:
    x = normal(random, 10)
    refused(ValueError, "did you mean", lambda: kiln.debug_op("ad", x, x))
    refused(ValueError, "broadcast", lambda: kiln.debug_op("add", x, x[:3]))
    refused(TypeError, "numpy.asarray", lambda: kiln.debug_op("add", x, [1.0]))
    refused(TypeError, "expected the name of an op", lambda: kiln.debug_op(5, x))
    out = numpy.empty(10, numpy.float32)
    out.flags.writeable = False
    refused(ValueError, "read-only", lambda: kiln.debug_op("neg", x, out=out))
    with kiln.capture(device="cpu"):
        refused(ValueError, "captur", lambda: kiln.debug_op("neg", x))


def test_torch_goes_in_and_comes_out() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 7)
    (result,) = kiln.debug_op("neg", x).results
    assert torch.equal(result, -x)


def test_on_a_gpu(gpu: str) -> None:
    import torch

    x = torch.randn(50, 70, device=gpu)
    report = kiln.debug_op("softmax", x, dim=1)
    assert report.ok and report.device == "cuda:0"
    torch.testing.assert_close(report.results[0], torch.softmax(x, dim=1))
    assert report.inputs[0]["before"]["max"] == x.max().item()
