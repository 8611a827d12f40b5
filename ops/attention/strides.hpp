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

/// Whether the copy engine can bring blocks of rows of a tensor of `itemsize` bytes an element that begins at a
/// multiple of 16 bytes.
inline bool in_boxes(const ops::AttentionStrides& strides, std::int64_t itemsize) {
  constexpr std::int64_t kPlaceBytes = 16;
  const auto is_whole = [&](std::int64_t stride) { return stride * itemsize % kPlaceBytes == 0; };
  return strides.element == 1 && strides.row > 0 && is_whole(strides.row) && is_whole(strides.head) &&
         is_whole(strides.batch);
}

}  // namespace kiln::attention
