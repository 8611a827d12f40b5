#include "ops/kv_cache/swap_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/errors.hpp"
#include "ops/kv_cache/paged_call.hpp"

namespace kiln::kv_cache {
namespace {

constexpr std::string_view kOp = "swap_blocks";

/// A block's elements must lie without gaps, in row-major order; blocks may lie anywhere.
void check_blocks(std::string_view name, const TensorView& view) {
  if (view.ndim() < 1)
    throw_value_error(fmt::format("op '{}': input '{}' has no dimensions, expected [blocks, ...]", kOp, name));
  std::int64_t dense = 1;
  for (int axis = view.ndim() - 1; axis > 0; --axis) {
    if (view.shape[axis] > 1 && view.strides[axis] != dense && view.numel() != 0)
      throw_value_error(fmt::format(
          "op '{}': the blocks of input '{}' are not dense ({}); a block, everything behind dimension 0, must lie "
          "without gaps in row-major order",
          kOp, name, describe(view)));
    dense *= view.shape[axis];
  }
}

}  // namespace

std::vector<TensorMeta> infer_swap(std::span<const TensorView> inputs, const Attributes&) {
  const TensorView &dst = inputs[0], &src = inputs[1], &mapping = inputs[2];
  check_blocks("dst", dst);
  check_blocks("src", src);
  if (src.dtype != dst.dtype)
    throw_type_error(fmt::format("op '{}': input 'src' is {}, expected the dtype of 'dst', {}", kOp, describe(src),
                                 name(dst.dtype)));
  if (!std::equal(dst.shape.begin() + 1, dst.shape.end(), src.shape.begin() + 1, src.shape.end()))
    throw_value_error(
        fmt::format("op '{}': input 'src' has shape {} and 'dst' {}; expected blocks of one shape, which "
                    "is everything behind dimension 0",
                    kOp, to_string(src.shape), to_string(dst.shape)));
  if (mapping.ndim() != 2 || mapping.shape[1] != 2)
    throw_value_error(
        fmt::format("op '{}': input 'block_mapping' has shape {}, expected [n, 2]: pairs of a block of "
                    "'src' and one of 'dst'",
                    kOp, to_string(mapping.shape)));
  return {};
}

SwapCall swap_call(const OpCall& call) {
  const TensorView &dst = call.inputs[0], &src = call.inputs[1], &mapping = call.inputs[2];
  SwapCall swap;
  ops::SwapIteration& it = swap.iteration;
  it = {};
  it.pairs = mapping.shape[0];
  it.width = 1;
  for (int axis = 1; axis < dst.ndim(); ++axis) it.width *= dst.shape[axis];
  it.num_blocks[0] = src.shape[0];
  it.num_blocks[1] = dst.shape[0];
  it.block_strides[0] = step(src, 0);
  it.block_strides[1] = step(dst, 0);
  it.pair_stride = step(mapping, 0);
  it.side_stride = mapping.strides[1];
  swap.dtype = dst.dtype;
  swap.mapping = mapping.dtype;
  swap.is_host_side = !dst.device.is_cuda() || !src.device.is_cuda();
  swap.check_bounds = call.attributes.get_bool("check_bounds");
  return swap;
}

}  // namespace kiln::kv_cache
