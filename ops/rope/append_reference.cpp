#include "ops/rope/append_reference.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ops/common/element.hpp"
#include "ops/common/position.hpp"
#include "ops/kv_cache/paged_reference.hpp"
#include "ops/rope/append_problem.hpp"
#include "ops/rope/reference.hpp"

namespace kiln::rope {
namespace {

/// Dense rows of a dtype.
struct OwnRows {
  std::vector<std::byte> memory;
  TensorView view;

  OwnRows(DType dtype, const Dims& shape)
      : memory(static_cast<std::size_t>(num_elements(shape) * itemsize_bytes(dtype))),
        view(dense_view(memory.data(), dtype, shape)) {}
};

/// Rows divided by their heads' scales, as numbers of 8 bits.
OwnRows quantised(const TensorView& rows, const TensorView* scales, DType dtype) {
  OwnRows narrow(dtype, rows.shape);
  const double most = largest_of(dtype);
  common::for_each_position(rows.shape, [&](const Dims& position) {
    const double number =
        common::load_at<double>(rows, common::offset_at(rows, position)) / scale_of_head(scales, position[1]);
    // A NaN stays one.
    common::store_at<double>(narrow.view, common::offset_at(narrow.view, position),
                             number > most    ? most
                             : number < -most ? -most
                                              : number);
  });
  return narrow;
}

}  // namespace

void rope_append_reference(const OpCall& call) {
  const AppendProblem problem = append_problem(call.inputs, call.attributes);
  const TensorView &q = call.inputs[kQuery], &key = call.inputs[kKey], &value = call.inputs[kValue];
  const auto append = [&](const TensorView& rows, AppendInput cache) {
    kv_cache::append_rows(rows, call.inputs[cache], call.inputs[kSlots], problem.layout);
  };
  rotate(problem.rotation, q, q);
  const DType cache = call.inputs[kKeyCache].dtype;
  if (!is_fp8(cache)) {
    const OwnRows turned(key.dtype, key.shape);
    rotate(problem.rotation, key, turned.view);
    append(turned.view, kKeyCache);
    append(value, kValueCache);
    return;
  }
  const OwnRows turned(DType::f64, key.shape);
  rotate(problem.rotation, key, turned.view);
  append(quantised(turned.view, problem.scales[0], cache).view, kKeyCache);
  append(quantised(value, problem.scales[1], cache).view, kValueCache);
}

}  // namespace kiln::rope
