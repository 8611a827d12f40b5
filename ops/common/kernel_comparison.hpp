#pragma once

#include <kiln/tl.hpp>

namespace kiln::ops {

/// Counts in found[0] the elements of `got` that are further from those of `wanted` than the bounds allow; NaN is NaN.
/// A comparison of `wanted` with itself leaves the largest finite element in found[1], which those that follow read:
/// bits of numbers that are not negative are in the order of the numbers.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void output_comparison_kernel(const T* wanted, const T* got, tl::int64_t* found, tl::int64_t n,
                                          double relative, double absolute) {
  const double scale = tl::bitcast<double>(tl::load(found + 1));
  const double bound = relative * scale > absolute ? relative * scale : absolute;
  tl::int64_t differing = 0, largest = 0;
  for (tl::int64_t begin = tl::program_id(0) * BLOCK_SIZE; begin < n; begin += tl::num_programs(0) * BLOCK_SIZE) {
    const auto offsets = begin + tl::arange<BLOCK_SIZE>();
    const auto mask = offsets < n;
    const auto x = tl::load(got + offsets, mask), y = tl::load(wanted + offsets, mask);
    if constexpr (tl::Floating<T>) {
      const auto u = tl::cast<double>(x), v = tl::cast<double>(y), size = tl::abs(v), apart = tl::abs(u - v);
      const auto close =
          (u == v) | ((apart < INFINITY) & (apart <= bound + relative * size)) | (tl::isnan(u) & tl::isnan(v));
      differing += tl::sum(tl::cast<tl::int32_t>(~close));
      const tl::int64_t here = tl::bitcast<tl::int64_t>(tl::max(tl::where(size < INFINITY, size, 0.0)));
      largest = here > largest ? here : largest;
    } else {
      differing += tl::sum(tl::cast<tl::int32_t>(x != y));
    }
  }
  if (differing > 0) tl::atomic_add(found, differing);
  if (largest > 0) tl::atomic_max(found + 1, largest);
}

}  // namespace kiln::ops
