#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor.hpp"
#include "ops/attention/iteration.hpp"

namespace kiln::attention {

inline void exchange(TensorView& view, int axis, int other) {
  std::swap(view.shape[axis], view.shape[other]);
  std::swap(view.strides[axis], view.strides[other]);
}

/// A stride in elements, 0 along a dimension of one element.
inline std::int64_t step(const TensorView& view, int axis) {
  return view.shape[axis] > 1 ? view.strides[axis] : 0;
}

/// That of the last dimension, 1 along a dimension of one element.
inline std::int64_t element_step(const TensorView& view) {
  const int last = view.ndim() - 1;
  return view.shape[last] > 1 ? view.strides[last] : 1;
}

/// Of queries or their results, [B, Sq, H, D].
inline ops::AttentionStrides query_strides(const TensorView& view) {
  return {step(view, 0), step(view, 2), step(view, 1), element_step(view)};
}

}  // namespace kiln::attention
