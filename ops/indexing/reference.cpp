#include "ops/indexing/reference.hpp"

#include <cstddef>
#include <cstring>
#include <vector>

#include "ops/dims.hpp"
#include "ops/elementwise/element.hpp"

namespace kiln::indexing {
namespace {

using elementwise::load_element;
using elementwise::store_element;

std::byte* address(const TensorView& view, std::int64_t offset) {
  return static_cast<std::byte*>(view.data) + offset * itemsize_bytes(view.dtype);
}

/// Offset of the element at `position`, of which a tensor without dimensions reads nothing.
std::int64_t offset_at(const TensorView& view, const Dims& position) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < view.ndim(); ++axis) offset += position[axis] * view.strides[axis];
  return offset;
}

/// body(position) for every position in `shape`, the last axis fastest.
template <typename Body>
void for_each_position(const Dims& shape, Body body) {
  if (num_elements(shape) == 0) return;
  Dims position = shape;
  for (int axis = 0; axis < shape.size(); ++axis) position[axis] = 0;
  while (true) {
    body(position);
    int axis = shape.size() - 1;
    for (; axis >= 0 && ++position[axis] == shape[axis]; --axis) position[axis] = 0;
    if (axis < 0) return;
  }
}

int dim_of(const OpCall& call) {
  return axis_of("", "dim", *call.attributes.find("dim"), call.inputs[0].ndim());
}

std::int64_t extent_of(const TensorView& view, int dim) {
  return view.ndim() == 0 ? 1 : view.shape[dim];
}

/// out[position] = x[position with `i` at dim], or 0 where i is outside.
void select(const TensorView& out, const TensorView& x, const Dims& position, int dim, std::int64_t i) {
  std::byte* const to = address(out, offset_at(out, position));
  const auto size = static_cast<std::size_t>(itemsize_bytes(out.dtype));
  if (i < 0 || i >= extent_of(x, dim)) {
    std::memset(to, 0, size);
    return;
  }
  Dims source = position;
  if (x.ndim() > 0 && source.empty()) source.push_back(0);
  if (x.ndim() > 0) source[dim] = i;
  std::memcpy(to, address(x, offset_at(x, source)), size);
}

template <typename Sum>
void scatter_add(const OpCall& call) {
  const TensorView &out = call.outputs[0], &x = call.inputs[0], &index = call.inputs[1], &src = call.inputs[2];
  const int dim = dim_of(call);
  TensorView sums = dense_view(nullptr, DType::f64, out.shape);
  std::vector<Sum> storage(static_cast<std::size_t>(out.numel()));
  const auto sum_at = [&](const Dims& position) -> Sum& {
    return storage[static_cast<std::size_t>(offset_at(sums, position))];
  };
  for_each_position(out.shape, [&](const Dims& position) {
    sum_at(position) = load_element<Sum>(address(x, offset_at(x, position)), x.dtype);
  });
  for_each_position(index.shape, [&](const Dims& position) {
    const auto i = load_element<std::int64_t>(address(index, offset_at(index, position)), index.dtype);
    if (i < 0 || i >= extent_of(out, dim)) return;
    Dims target = position;
    if (out.ndim() > 0 && target.empty()) target.push_back(0);
    if (out.ndim() > 0) target[dim] = i;
    const Sum added = load_element<Sum>(address(src, offset_at(src, position)), src.dtype);
    if constexpr (std::is_integral_v<Sum>)
      sum_at(target) = static_cast<Sum>(static_cast<std::uint64_t>(sum_at(target)) + static_cast<std::uint64_t>(added));
    else
      sum_at(target) += added;
  });
  for_each_position(out.shape, [&](const Dims& position) {
    store_element<Sum>(address(out, offset_at(out, position)), out.dtype, sum_at(position));
  });
}

}  // namespace

void index_select_reference(const OpCall& call) {
  const TensorView& index = call.inputs[1];
  const int dim = dim_of(call);
  for_each_position(call.outputs[0].shape, [&](const Dims& position) {
    const std::int64_t offset = index.ndim() == 0 || position.empty() ? 0 : position[dim] * index.strides[0];
    select(call.outputs[0], call.inputs[0], position, dim,
           load_element<std::int64_t>(address(index, offset), index.dtype));
  });
}

void gather_reference(const OpCall& call) {
  const TensorView& index = call.inputs[1];
  for_each_position(index.shape, [&](const Dims& position) {
    select(call.outputs[0], call.inputs[0], position, dim_of(call),
           load_element<std::int64_t>(address(index, offset_at(index, position)), index.dtype));
  });
}

void scatter_add_reference(const OpCall& call) {
  if (is_floating(call.outputs[0].dtype))
    scatter_add<double>(call);
  else
    scatter_add<std::int64_t>(call);
}

}  // namespace kiln::indexing
