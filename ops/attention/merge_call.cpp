#include "ops/attention/merge_call.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "core/errors.hpp"
#include "ops/attention/strides.hpp"
#include "ops/common/walk_dim.hpp"

namespace kiln::attention {
namespace {

enum PlaceOperand : std::uint8_t { kOut, kOuts, kLse, kLses };

using PlaceDim = common::WalkDim<4>;

}  // namespace

MergeCall merge_of(const TensorView& out, const TensorView* lse, const TensorView& outs, const TensorView& lses) {
  MergeCall merge;
  merge.in = outs.dtype;
  merge.out = out.dtype;
  merge.returns_lse = lse != nullptr;
  merge.places = 1;
  std::vector<PlaceDim> dims;
  for (int axis = out.ndim() - 2; axis >= 0; --axis) {
    merge.places *= out.shape[axis];
    if (out.shape[axis] == 1) continue;
    dims.push_back(
        {out.shape[axis],
         {out.strides[axis], outs.strides[axis + 1], lse != nullptr ? lse->strides[axis] : 0, lses.strides[axis + 1]}});
  }
  common::sort_innermost_first(dims, [](const PlaceDim& dim) { return common::magnitude(dim.strides[kOut]); });
  dims = common::merged(dims);

  ops::MergeIteration& it = merge.iteration;
  it = {};
  it.parts = outs.shape[0];
  it.outs_part = step(outs, 0);
  it.lses_part = step(lses, 0);
  it.places.length = out.shape[out.ndim() - 1];
  it.places.steps[kOut] = element_step(out);
  it.places.steps[kOuts] = element_step(outs);
  it.places.num_dims = static_cast<int>(dims.size());
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    it.places.extents[dim] = dims[dim].extent;
    for (const PlaceOperand operand : {kOut, kOuts, kLse, kLses})
      it.places.strides[operand][dim] = dims[dim].strides[operand];
  }
  return merge;
}

std::vector<TensorMeta> infer_merge(const CallInputs& inputs, const Attributes& attributes) {
  const TensorView &outs = inputs[0], &lses = inputs[1];
  if (outs.ndim() < 2)
    throw_value_error(fmt::format(
        "op '{}': input 'outs' has shape {}, expected [parts, ..., H, Dv]; stack the partial results along dimension 0",
        kMergeOp, to_string(outs.shape)));
  Dims expected, out;
  for (int axis = 0; axis < outs.ndim(); ++axis) {
    if (axis < outs.ndim() - 1) expected.push_back(outs.shape[axis]);
    if (axis > 0) out.push_back(outs.shape[axis]);
  }
  if (lses.shape != expected)
    throw_value_error(
        fmt::format("op '{}': input 'lses' has shape {}, expected {}, that of 'outs' without the last dimension; "
                    "permute its dimensions where they are in another order",
                    kMergeOp, to_string(lses.shape), to_string(expected)));
  std::vector<TensorMeta> outputs = {{outs.dtype, out}};
  if (!attributes.get_bool("return_lse")) return outputs;
  Dims lse;
  for (int axis = 1; axis < expected.size(); ++axis) lse.push_back(expected[axis]);
  outputs.push_back({DType::f32, lse});
  return outputs;
}

MergeCall merge_call(const OpCall& call) {
  return merge_of(call.outputs[0], call.outputs.size() > 1 ? &call.outputs[1] : nullptr, call.inputs[0],
                  call.inputs[1]);
}

}  // namespace kiln::attention
