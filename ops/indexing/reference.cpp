#include "ops/indexing/reference.hpp"

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "ops/common/attribute_reader.hpp"
#include "ops/common/element.hpp"
#include "ops/common/position.hpp"
#include "ops/indexing/iteration_plan.hpp"

namespace kiln::indexing {
namespace {

using common::address_at;
using common::for_each_position;
using common::load_at;
using common::offset_at;

int dim_of(std::string_view op, const OpCall& call) {
  return axis_of(op, "dim", *call.attributes.find("dim"), call.inputs[0].ndim());
}

/// out[position] = x[position with `i` at dim], or 0 where i is outside.
void select(const TensorView& out, const TensorView& x, const Dims& position, int dim, std::int64_t i) {
  std::byte* const to = address_at(out, offset_at(out, position));
  const auto size = static_cast<std::size_t>(itemsize_bytes(out.dtype));
  if (i < 0 || i >= extent_of(x, dim)) {
    std::memset(to, 0, size);
    return;
  }
  Dims source = position;
  if (x.ndim() > 0 && source.empty()) source.push_back(0);
  if (x.ndim() > 0) source[dim] = i;
  std::memcpy(to, address_at(x, offset_at(x, source)), size);
}

template <typename Sum>
void scatter_add(const OpCall& call) {
  const TensorView &out = call.outputs[0], &x = call.inputs[0], &index = call.inputs[1], &src = call.inputs[2];
  const int dim = dim_of("scatter_add", call);
  TensorView sums = dense_view(nullptr, DType::f64, out.shape);
  std::vector<Sum> storage(static_cast<std::size_t>(out.numel()));
  const auto sum_at = [&](const Dims& position) -> Sum& {
    return storage[static_cast<std::size_t>(offset_at(sums, position))];
  };
  for_each_position(out.shape,
                    [&](const Dims& position) { sum_at(position) = load_at<Sum>(x, offset_at(x, position)); });
  for_each_position(index.shape, [&](const Dims& position) {
    const auto i = load_at<std::int64_t>(index, offset_at(index, position));
    if (i < 0 || i >= extent_of(out, dim)) return;
    Dims target = position;
    if (out.ndim() > 0 && target.empty()) target.push_back(0);
    if (out.ndim() > 0) target[dim] = i;
    const Sum added = load_at<Sum>(src, offset_at(src, position));
    if constexpr (std::is_integral_v<Sum>)
      sum_at(target) = static_cast<Sum>(static_cast<std::uint64_t>(sum_at(target)) + static_cast<std::uint64_t>(added));
    else
      sum_at(target) += added;
  });
  for_each_position(
      out.shape, [&](const Dims& position) { common::store_at<Sum>(out, offset_at(out, position), sum_at(position)); });
}

}  // namespace

void index_select_reference(const OpCall& call) {
  const TensorView& index = call.inputs[1];
  const int dim = dim_of("index_select", call);
  for_each_position(call.outputs[0].shape, [&](const Dims& position) {
    const std::int64_t offset = index.ndim() == 0 || position.empty() ? 0 : position[dim] * index.strides[0];
    select(call.outputs[0], call.inputs[0], position, dim, load_at<std::int64_t>(index, offset));
  });
}

void gather_reference(const OpCall& call) {
  const TensorView& index = call.inputs[1];
  const int dim = dim_of("gather", call);
  for_each_position(index.shape, [&](const Dims& position) {
    select(call.outputs[0], call.inputs[0], position, dim, load_at<std::int64_t>(index, offset_at(index, position)));
  });
}

void scatter_add_reference(const OpCall& call) {
  if (is_floating(call.outputs[0].dtype))
    scatter_add<double>(call);
  else
    scatter_add<std::int64_t>(call);
}

}  // namespace kiln::indexing
