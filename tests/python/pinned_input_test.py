"""Ops of one's own whose kernels read the host's page-locked memory."""

from __future__ import annotations

import kiln
import numpy
import pytest
from refusal import refused

SOURCE = """
#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void fetch(const T* x, T* y, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  tl::store(y + offsets, tl::load(x + offsets, offsets < n), offsets < n);
}
"""


def fetch(is_pinned: bool) -> kiln.Op:
    return kiln.register_op(
        f"pinned_input_test.fetch_{is_pinned}",
        kernel=kiln.Kernel(
            SOURCE,
            "fetch",
            grid=lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]),
            tunables={"BLOCK_SIZE": [256]},
        ),
        inputs=[kiln.Input("x", pinned=is_pinned), kiln.Input("y", mutated=True)],
        launch=lambda call, config: kiln.Launch(
            kiln.cdiv(call["x"].numel, config["BLOCK_SIZE"]), arguments={"n": call["x"].numel}
        ),
        dtypes=["f32"],
    )


def test_the_spec_says_so() -> None:
    assert [tensor.pinned for tensor in fetch(True).spec.inputs] == [True, False]
    assert [tensor.pinned for tensor in fetch(False).spec.inputs] == [False, False]


@pytest.mark.parametrize("is_pinned", [True, False])
def test_on_the_cpu_memory_is_memory(is_pinned: bool) -> None:
    x, out = numpy.arange(1000, dtype=numpy.float32), numpy.zeros(1000, numpy.float32)
    fetch(is_pinned)(x, out)
    numpy.testing.assert_array_equal(out, x)


def test_a_gpu_reads_the_hosts(gpu: str) -> None:
    with kiln.PinnedPool(gpu) as pool:
        x = pool.empty(1000).numpy()
    x[...] = numpy.arange(1000)
    out = kiln.to_device(numpy.zeros(1000, numpy.float32), gpu)
    fetch(True)(x, out)
    kiln.synchronize()
    numpy.testing.assert_array_equal(out.numpy(), x)
    refused(ValueError, "not in page-locked memory", lambda: fetch(True)(x.copy(), out))
    refused((ValueError, TypeError), "cpu|CPU", lambda: fetch(False)(x, out))
