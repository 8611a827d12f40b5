#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace kiln::common {

/// Calls visit(position) for every position in `shape`, the last axis fastest.
template <typename Visit>
void for_each_position(const Dims& shape, Visit visit) {
  if (num_elements(shape) == 0) return;
  Dims position = shape;
  for (int axis = 0; axis < shape.size(); ++axis) position[axis] = 0;
  while (true) {
    visit(position);
    int axis = shape.size() - 1;
    for (; axis >= 0 && ++position[axis] == shape[axis]; --axis) position[axis] = 0;
    if (axis < 0) return;
  }
}

/// The same for the positions that are 0 along the axes that `held(axis)` says: one for each line along these.
template <typename Held, typename Visit>
void for_each_line(const Dims& shape, Held held, Visit visit) {
  if (num_elements(shape) == 0) return;
  Dims starts = shape;
  for (int axis = 0; axis < shape.size(); ++axis)
    if (held(axis)) starts[axis] = 1;
  for_each_position(starts, visit);
}

/// One for each line along `axis`.
template <typename Visit>
void for_each_line_along(const Dims& shape, int axis, Visit visit) {
  for_each_line(shape, [axis](int other) { return other == axis; }, visit);
}

/// Elements from a view's first to the one at `position`, of which a tensor without dimensions reads nothing.
inline std::int64_t offset_at(const TensorView& view, const Dims& position) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < view.ndim(); ++axis) offset += position[axis] * view.strides[axis];
  return offset;
}

}  // namespace kiln::common
