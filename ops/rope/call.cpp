#include "ops/rope/call.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "ops/common/walk_dim.hpp"

namespace kiln::rope {
namespace {

using TokenDim = common::WalkDim<ops::kRopeOperands>;

std::int64_t step(const TensorView& view, int axis) {
  return view.shape[axis] > 1 ? view.strides[axis] : 0;
}

/// The dimensions of tokens in the fewest, the longest of them first: a tile's rows run along it.
std::vector<TokenDim> token_dims(const TensorView& out, const TensorView& x, const RopeProblem& problem) {
  std::vector<TokenDim> dims;
  const int last = x.ndim() - 3;
  for (int axis = last; axis >= 0; --axis) {
    if (x.shape[axis] == 1) continue;
    TokenDim dim;
    dim.extent = x.shape[axis];
    dim.strides = {step(out, axis), step(x, axis), 0, 0, 0};
    if (problem.positions != nullptr)
      dim.strides[4] = token_stride(*problem.positions, 0, x, axis);
    else if (problem.cos == nullptr)
      dim.strides[4] = axis == last ? 1 : 0;
    if (problem.cos != nullptr && problem.positions == nullptr) {
      dim.strides[2] = token_stride(*problem.cos, 1, x, axis);
      dim.strides[3] = token_stride(*problem.sin, 1, x, axis);
    }
    dims.push_back(dim);
  }
  dims = common::merged(dims);
  if (dims.empty()) dims.emplace_back();
  const auto longest =
      std::ranges::max_element(dims, [](const TokenDim& a, const TokenDim& b) { return a.extent < b.extent; });
  std::rotate(dims.begin(), longest, std::next(longest));
  return dims;
}

bool is_dense(const TensorView& view) {
  return view.strides[view.ndim() - 1] == 1;
}

}  // namespace

std::int64_t row_width(const ops::RopeForm& form) {
  return form.padded_pairs() * (form.is_dense && form.interleaved ? 2 : 1);
}

ops::RopeForm form_of(const RopeProblem& problem) {
  ops::RopeForm form{};
  form.rotary_dim = static_cast<int>(problem.rotary_dim);
  form.interleaved = problem.interleaved;
  form.copies_rest = problem.rotary_dim < problem.head_dim;
  form.inverse = problem.inverse;
  form.has_tables = problem.cos != nullptr;
  form.dense_tables = form.has_tables && is_dense(*problem.cos) && is_dense(*problem.sin);
  form.has_positions = problem.positions != nullptr;
  form.blends = !form.has_tables && problem.frequencies.blends;
  return form;
}

void set_table_strides(const RopeProblem& problem, long long (&rows)[2], long long (&elements)[2]) {
  const TensorView* const tables[] = {problem.cos, problem.sin};
  for (int i = 0; i < 2; ++i) {
    const TensorView& table = *tables[i];
    rows[i] = step(table, table.ndim() - 2);
    elements[i] = table.strides[table.ndim() - 1];
  }
}

RopeCall rope_call(const OpCall& call) {
  const RopeProblem problem = rope_problem(call.inputs, call.attributes);
  const TensorView &out = call.outputs[0], &x = call.inputs[kX];
  RopeCall result;
  result.dtype = x.dtype;
  result.processors = call.processors;

  ops::RopeIteration& it = result.iteration;
  it = {};
  const std::vector<TokenDim> dims = token_dims(out, x, problem);
  it.tokens = dims[0].extent;
  std::ranges::copy(dims[0].strides, it.token_strides);
  for (std::size_t dim = 1; dim < dims.size(); ++dim) {
    it.outer_extents[dim - 1] = dims[dim].extent;
    for (std::size_t operand = 0; operand < ops::kRopeOperands; ++operand)
      it.outer_strides[operand][dim - 1] = dims[dim].strides[operand];
    result.outer *= dims[dim].extent;
  }
  it.num_outer_dims = static_cast<int>(dims.size()) - 1;
  it.heads = problem.heads;
  it.head_dim = problem.head_dim;
  const TensorView* const heads[] = {&out, &x};
  for (int i = 0; i < 2; ++i) {
    it.head_strides[i] = step(*heads[i], x.ndim() - 2);
    it.element_strides[i] = heads[i]->strides[x.ndim() - 1];
  }
  it.positions = problem.num_positions;

  ops::RopeForm& form = result.form;
  form = form_of(problem);
  form.is_dense = is_dense(out) && is_dense(x);
  if (form.has_positions) result.position = problem.positions->dtype;
  if (form.has_tables) {
    result.table = problem.cos->dtype;
    set_table_strides(problem, it.table_row_strides, it.table_element_strides);
  } else {
    it.turns = problem.frequencies.fractions();
  }
  return result;
}

}  // namespace kiln::rope
