#include "ops/kv_cache/rows_call.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstdlib>

#include "core/errors.hpp"
#include "core/tensor_map.hpp"
#include "ops/kv_cache/paged_call.hpp"

namespace kiln::kv_cache {
namespace {

/// Elements of one row; rows are what lies behind dimension 0.
std::int64_t row_elements(const TensorView& view) {
  std::int64_t elements = 1;
  for (int axis = 1; axis < view.ndim(); ++axis) elements *= view.shape[axis];
  return elements;
}

void check_rows(std::string_view op, std::string_view name, const TensorView& view) {
  if (view.ndim() == 0)
    throw_value_error(fmt::format("op '{}': input '{}' has no dimensions, expected rows along dimension 0", op, name));
  if (view.numel() == 0) return;  // nothing has no strides to speak of; NumPy gives it strides of 0
  std::int64_t dense = 1;
  for (int axis = view.ndim() - 1; axis > 0; --axis) {
    if (view.shape[axis] > 1 && view.strides[axis] != dense)
      throw_value_error(fmt::format(
          "op '{}': input '{}' is {}, whose rows are not dense; the elements of a row lie side by side, in order, and "
          "only dimension 0 may have another stride: make a contiguous copy",
          op, name, describe(view)));
    dense *= view.shape[axis];
  }
}

bool have_same_rows(const TensorView& a, const TensorView& b) {
  if (a.ndim() != b.ndim()) return false;
  for (int axis = 1; axis < a.ndim(); ++axis)
    if (a.shape[axis] != b.shape[axis]) return false;
  return true;
}

std::int64_t row_stride_bytes(const TensorView& view) {
  return step(view, 0) * itemsize_bytes(view.dtype);
}

}  // namespace

std::vector<TensorMeta> infer_rows(std::string_view op, const CallInputs& inputs, const Attributes& attributes) {
  const TensorView &dst = inputs[kDst], &src = inputs[kSrc], &indices = inputs[kIndices];
  check_rows(op, "dst", dst);
  check_rows(op, "src", src);
  if (src.dtype != dst.dtype)
    throw_type_error(
        fmt::format("op '{}': input 'src' is {} and 'dst' {}; rows are copied as they are, so both have "
                    "one dtype",
                    op, name(src.dtype), name(dst.dtype)));
  if (!have_same_rows(dst, src))
    throw_value_error(fmt::format("op '{}': inputs 'src' and 'dst' have shapes {} and {}; expected rows of one shape",
                                  op, to_string(src.shape), to_string(dst.shape)));
  if (indices.ndim() != 3 || indices.shape[2] != 2)
    throw_value_error(fmt::format(
        "op '{}': input 'indices' has shape {}, expected [requests, topk, 2], a pair (src row, dst row) for each row",
        op, to_string(indices.shape)));
  if (const TensorView* const given = inputs.find(kCounts)) {
    const TensorView& counts = *given;
    if (counts.shape != Dims{indices.shape[0]})
      throw_value_error(
          fmt::format("op '{}': input 'counts' has shape {}, expected {}, a number for each request of "
                      "'indices'",
                      op, to_string(counts.shape), to_string(Dims{indices.shape[0]})));
  }
  if (const TensorView* const given = inputs.find(kSlotMap)) {
    const TensorView& slot_map = *given;
    if (slot_map.shape != Dims{src.shape[0]})
      throw_value_error(fmt::format("op '{}': input 'slot_map' has shape {}, expected {}, a slot for each row of 'src'",
                                    op, to_string(slot_map.shape), to_string(Dims{src.shape[0]})));
  }
  if (const std::int64_t max_sms = attributes.get_int("max_sms"); max_sms < 0)
    throw_value_error(
        fmt::format("op '{}': attribute 'max_sms' is {}, expected 1 or more, or 0 for no limit", op, max_sms));
  return {};
}

RowsCall rows_call(const std::string& op, const OpCall& call) {
  const TensorView &dst = call.inputs[kDst], &src = call.inputs[kSrc], &indices = call.inputs[kIndices];
  RowsCall rows;
  rows.op = op;
  ops::RowsIteration& it = rows.iteration;
  it = {};
  it.pairs = indices.shape[0] * indices.shape[1];
  it.topk = indices.shape[1];
  it.src_rows = src.shape[0];
  it.dst_rows = dst.shape[0];
  it.row_bytes = row_elements(src) * itemsize_bytes(src.dtype);
  it.src_stride = row_stride_bytes(src);
  it.dst_stride = row_stride_bytes(dst);
  for (int axis = 0; axis < 3; ++axis) it.index_strides[axis] = step(indices, axis);
  rows.index = rows.count = rows.slot = indices.dtype;
  rows.has_counts = call.inputs.find(kCounts) != nullptr;
  if (rows.has_counts) {
    rows.count = call.inputs[kCounts].dtype;
    it.count_stride = step(call.inputs[kCounts], 0);
  }
  rows.has_slot_map = call.inputs.find(kSlotMap) != nullptr;
  if (rows.has_slot_map) {
    rows.slot = call.inputs[kSlotMap].dtype;
    it.slot_stride = step(call.inputs[kSlotMap], 0);
  }
  const bool on_gpu = indices.device.is_cuda();
  if (on_gpu && !src.device.is_cuda()) rows.host = HostSide::src;
  if (on_gpu && !dst.device.is_cuda()) rows.host = HostSide::dst;
  if (rows.host != HostSide::none)
    rows.host_bytes =
        rows.host == HostSide::src ? it.src_rows * std::abs(it.src_stride) : it.dst_rows * std::abs(it.dst_stride);
  rows.max_sms = call.attributes.get_int("max_sms");
  rows.check_bounds = call.attributes.get_bool("check_bounds");
  const auto bits = static_cast<std::uint64_t>(it.row_bytes | it.src_stride | it.dst_stride | 16);
  rows.alignment_bytes = std::int64_t{1} << std::countr_zero(bits);
  if (rows.alignment_bytes == 16 && !(takes_tensor_map(dst.data) && takes_tensor_map(src.data)))
    rows.alignment_bytes = 8;
  return rows;
}

}  // namespace kiln::kv_cache
