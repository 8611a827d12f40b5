#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "core/shape.hpp"
#include "core/tensor.hpp"

namespace kiln::test {

/// How a view lies in its buffer.
struct Layout {
  Dims strides;                      ///< in elements
  std::int64_t offset_elements = 0;  ///< of the buffer's first element, so that addresses are not always aligned
};

inline Layout dense_layout(const Dims& shape) {
  return {contiguous_strides(shape), 0};
}

/// Permuted, stepped, reversed, padded, shifted, and with `allow_zero` expanded: any of these, at random. Elements stay
/// distinct unless expanded.
inline Layout random_layout(const Dims& shape, bool allow_zero, std::mt19937_64& random) {
  Layout layout{shape, static_cast<std::int64_t>(random() % 3)};
  std::vector<int> order(static_cast<std::size_t>(shape.size()));
  std::iota(order.rbegin(), order.rend(), 0);  // innermost first
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  std::int64_t stride = random() % 3 == 0 ? 2 : 1;
  for (const int axis : order) {
    layout.strides[axis] = random() % 4 == 0 ? -stride : stride;
    if (allow_zero && random() % 6 == 0) {
      layout.strides[axis] = 0;
      continue;
    }
    stride *= std::max<std::int64_t>(shape[axis], 1);
    if (random() % 4 == 0) stride += static_cast<std::int64_t>(random() % 5);
    if (random() % 8 == 0) stride *= 2;
  }
  return layout;
}

}  // namespace kiln::test
