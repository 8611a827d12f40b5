#include "ops/rope/append_call.hpp"

#include "ops/rope/append_problem.hpp"

namespace kiln::rope {
namespace {

ops::RopeRowStrides row_strides(const TensorView& rows) {
  return {kv_cache::step(rows, 0), kv_cache::step(rows, 1), kv_cache::element_step(rows)};
}

}  // namespace

AppendCall append_call(const OpCall& call) {
  const AppendProblem problem = append_problem(call.inputs, call.attributes);
  const RopeProblem& rotation = problem.rotation;
  const TensorView &q = call.inputs[kQuery], &slots = call.inputs[kSlots];
  AppendCall result;
  result.dtype = q.dtype;
  result.cache = call.inputs[kKeyCache].dtype;
  result.slots = slots.dtype;
  result.processors = call.processors;

  ops::RopeAppendIteration& it = result.iteration;
  it = {};
  it.tokens = rotation.tokens;
  it.query_heads = rotation.heads;
  it.heads = call.inputs[kKey].shape[1];
  it.head_dim = rotation.head_dim;
  it.query = row_strides(q);
  ops::RopeForm& form = result.form;
  form = form_of(rotation);
  form.is_dense = it.query.element == 1;
  for (std::size_t kind = 0; kind < 2; ++kind) {
    it.fresh[kind] = row_strides(call.inputs[kKey + kind]);
    it.caches[kind] = kv_cache::paged_cache(call.inputs[kKeyCache + kind], problem.layout);
    if (const TensorView* const scales = problem.scales[kind]) {
      result.has_scales[kind] = true;
      it.scale_strides[kind] = scales->ndim() == 0 ? 0 : kv_cache::step(*scales, 0);
    }
    form.is_dense &= it.fresh[kind].element == 1 && it.caches[kind].element_stride == 1;
  }
  it.slot_stride = kv_cache::step(slots, 0);
  it.positions = rotation.num_positions;
  if (form.has_positions) {
    result.position = rotation.positions->dtype;
    it.position_stride = token_stride(*rotation.positions, 0, q, 0);
  }
  if (form.has_tables) {
    result.table = rotation.cos->dtype;
    set_table_strides(rotation, it.table_row_strides, it.table_element_strides);
  } else {
    it.turns = rotation.frequencies.fractions();
  }
  return result;
}

}  // namespace kiln::rope
