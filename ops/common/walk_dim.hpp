#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::common {

/// A dimension that several operands step through together; strides in elements.
template <std::size_t kOperands>
struct WalkDim {
  std::int64_t extent = 1;
  std::array<std::int64_t, kOperands> strides{};
};

/// How far a stride goes, whichever way.
inline std::int64_t magnitude(std::int64_t stride) {
  return stride < 0 ? -stride : stride;
}

/// Whether stepping through `outer` goes on where `inner` ends, in every operand. One index is never stepped.
template <std::size_t kOperands>
bool continues(const WalkDim<kOperands>& inner, const WalkDim<kOperands>& outer) {
  if (inner.extent == 1) return true;
  for (std::size_t operand = 0; operand < kOperands; ++operand)
    if (outer.strides[operand] != inner.strides[operand] * inner.extent) return false;
  return true;
}

/// Makes `inner` both, where `outer` continues it.
template <std::size_t kOperands>
void take_over(WalkDim<kOperands>& inner, const WalkDim<kOperands>& outer) {
  if (inner.extent == 1) inner.strides = outer.strides;
  inner.extent *= outer.extent;
}

/// The fewest dimensions that step through the same places; `dims` is innermost first.
template <std::size_t kOperands>
std::vector<WalkDim<kOperands>> merged(const std::vector<WalkDim<kOperands>>& dims) {
  std::vector<WalkDim<kOperands>> result;
  for (const WalkDim<kOperands>& dim : dims) {
    if (!result.empty() && continues(result.back(), dim))
      take_over(result.back(), dim);
    else
      result.push_back(dim);
  }
  return result;
}

/// Sorts by `key(dim)`, the least first. Dimensions that tie keep their order.
template <std::size_t kOperands, typename Key>
void sort_innermost_first(std::vector<WalkDim<kOperands>>& dims, Key key) {
  std::stable_sort(dims.begin(), dims.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

}  // namespace kiln::common
