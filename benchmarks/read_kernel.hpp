#pragma once

#include <kiln/tl.hpp>

namespace kiln::benchmark {

/// Reads every element of x once and writes nothing: how fast memory can be read. Each program reads STEPS tiles.
template <int BLOCK_SIZE, int STEPS>
KILN_KERNEL void read_kernel(const float* x, float* out, tl::int64_t n) {
  auto total = tl::zeros<float, BLOCK_SIZE>();
  KILN_NO_UNROLL for (int step = 0; step < STEPS; ++step) {
    const auto offsets = (tl::program_id(0) * STEPS + step) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
    total = total + tl::load(x + offsets, offsets < n);
  }
  // No sum of the benchmark's inputs is this one; without the test the loads would be dropped.
  if (const float sum = tl::sum(total); sum == 1.2345e38f) tl::store(out, sum);
}

}  // namespace kiln::benchmark
