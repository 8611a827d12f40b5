#include "ops/rope/problem.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/errors.hpp"

namespace kiln::rope {
namespace {

std::int64_t rotary_dim_of(const RopeInputs& inputs, const Attributes& attributes) {
  const std::int64_t head_dim = inputs.x.shape[inputs.x.ndim() - 1];
  const std::int64_t given = attributes.get_int("rotary_dim");
  const std::int64_t rotary_dim = given == 0 ? head_dim : given;
  if (rotary_dim > head_dim)
    throw_value_error(
        fmt::format("op '{}': attribute 'rotary_dim' is {}, but the heads of input '{}' have {} numbers; expected no "
                    "more than these, or 0 for all of them",
                    inputs.op, rotary_dim, inputs.x_name, head_dim));
  if (rotary_dim < 2 || rotary_dim > kMostRotaryDim || rotary_dim % 2 != 0)
    throw_value_error(fmt::format(
        "op '{}': attribute 'rotary_dim' is {}{}, expected an even number from 2 to {}", inputs.op, given,
        given == 0 ? fmt::format(", all {} numbers of {}'s heads", head_dim, inputs.x_name) : "", kMostRotaryDim));
  return rotary_dim;
}

/// x's dimensions of tokens.
Dims token_shape(const TensorView& x) {
  return Dims(x.shape.span().first(static_cast<std::size_t>(x.ndim() - 2)));
}

/// Whether what is left of `view` without its last `trailing` dimensions broadcasts to `shape`.
bool broadcasts(const TensorView& view, int trailing, const Dims& shape) {
  const int rank = view.ndim() - trailing;
  if (rank < 0 || rank > shape.size()) return false;
  for (int from_end = 1; from_end <= rank; ++from_end) {
    const std::int64_t extent = view.shape[rank - from_end];
    if (extent != 1 && extent != shape[shape.size() - from_end]) return false;
  }
  return true;
}

void check_positions(const RopeInputs& inputs) {
  const TensorView &positions = *inputs.positions, &x = inputs.x;
  if (!broadcasts(positions, 0, token_shape(x)))
    throw_value_error(fmt::format(
        "op '{}': input 'positions' has shape {}, which does not broadcast to {}, one for each token of "
        "'{}' {}",
        inputs.op, to_string(positions.shape), to_string(token_shape(x)), inputs.x_name, to_string(x.shape)));
}

void check_table_dtype(const RopeInputs& inputs) {
  const TensorView &table = *inputs.cos, &x = inputs.x;
  if (table.dtype != DType::f32 && table.dtype != x.dtype)
    throw_type_error(
        fmt::format("op '{}': input 'cos' is {}, expected f32{}", inputs.op, name(table.dtype),
                    x.dtype == DType::f32 ? "" : fmt::format(" or {}, as '{}' is", name(x.dtype), inputs.x_name)));
}

void check_tables(const RopeInputs& inputs, const RopeProblem& problem) {
  const TensorView &cos = *inputs.cos, &sin = *inputs.sin, &x = inputs.x;
  check_table_dtype(inputs);
  if (sin.dtype != cos.dtype)
    throw_type_error(fmt::format("op '{}': input 'sin' is {}, expected {}, as 'cos' is", inputs.op, name(sin.dtype),
                                 name(cos.dtype)));
  const int rank = cos.ndim();
  if (rank < 2 || cos.shape[rank - 1] != problem.pairs())
    throw_value_error(fmt::format(
        "op '{}': input 'cos' has shape {}, expected [{}, {}]: a column for each pair of the {} numbers that turn{}",
        inputs.op, to_string(cos.shape), problem.positions != nullptr ? "positions" : "T", problem.pairs(),
        problem.rotary_dim,
        rank >= 1 && cos.shape[rank - 1] == problem.rotary_dim
            ? "; of one that has each number twice, give the first half"
            : ""));
  if (sin.shape != cos.shape)
    throw_value_error(fmt::format("op '{}': input 'sin' has shape {}, expected that of 'cos', {}", inputs.op,
                                  to_string(sin.shape), to_string(cos.shape)));
  if (problem.positions != nullptr) {
    if (rank != 2)
      throw_value_error(
          fmt::format("op '{}': input 'cos' has shape {}, expected two dimensions beside 'positions', which name its "
                      "rows",
                      inputs.op, to_string(cos.shape)));
    return;
  }
  if (cos.shape[rank - 2] < problem.tokens)
    throw_value_error(
        fmt::format("op '{}': input 'cos' has {} rows for the {} tokens of '{}'; expected one for each, or 'positions'",
                    inputs.op, cos.shape[rank - 2], problem.tokens, inputs.x_name));
  const Dims lead(x.shape.span().first(static_cast<std::size_t>(x.ndim() - 3)));
  if (!broadcasts(cos, 2, lead))
    throw_value_error(
        fmt::format("op '{}': input 'cos' has shape {}, whose dimensions before the last two do not "
                    "broadcast to {}, those of '{}' before its tokens",
                    inputs.op, to_string(cos.shape), to_string(lead), inputs.x_name));
}

/// Attributes that say what the tables say already.
void check_no_frequencies(const RopeInputs& inputs, const Attributes& attributes) {
  const bool scales = attributes.get_string("scaling") != "none" || attributes.get_double("factor") != 1;
  if (scales || attributes.get_double("base") != kDefaultBase)
    throw_value_error(
        fmt::format("op '{}': attribute '{}' is given beside inputs 'cos' and 'sin', which hold the "
                    "angles already; leave out one or the other",
                    inputs.op, scales ? "scaling" : "base"));
}

}  // namespace

RopeProblem rope_problem(const RopeInputs& inputs, const Attributes& attributes) {
  const TensorView& x = inputs.x;
  if (x.ndim() < 3)
    throw_value_error(fmt::format("op '{}': input '{}' has shape {}, expected three dimensions or more, [..., T, H, D]",
                                  inputs.op, inputs.x_name, to_string(x.shape)));
  RopeProblem problem;
  problem.tokens = x.shape[x.ndim() - 3];
  problem.heads = x.shape[x.ndim() - 2];
  problem.head_dim = x.shape[x.ndim() - 1];
  problem.rotary_dim = rotary_dim_of(inputs, attributes);
  problem.interleaved = attributes.get_bool("interleaved");
  problem.inverse = attributes.find("inverse") != nullptr && attributes.get_bool("inverse");
  problem.cos = inputs.cos;
  problem.sin = inputs.sin;
  problem.positions = inputs.positions;
  if ((problem.cos == nullptr) != (problem.sin == nullptr))
    throw_value_error(
        fmt::format("op '{}': input '{}' is given without '{}'; expected both, or neither and attribute "
                    "'base'",
                    inputs.op, problem.cos != nullptr ? "cos" : "sin", problem.cos != nullptr ? "sin" : "cos"));
  if (problem.positions != nullptr) check_positions(inputs);
  if (problem.cos != nullptr) {
    check_tables(inputs, problem);
    check_no_frequencies(inputs, attributes);
    problem.num_positions = problem.cos->shape[problem.cos->ndim() - 2];
  } else {
    problem.frequencies = frequencies(inputs.op, attributes, problem.pairs());
    problem.num_positions = kMostPositions;
  }
  return problem;
}

RopeProblem rope_problem(const CallInputs& inputs, const Attributes& attributes) {
  return rope_problem({.op = kOp,
                       .x_name = "x",
                       .x = inputs[kX],
                       .cos = inputs.find(kCos),
                       .sin = inputs.find(kSin),
                       .positions = inputs.find(kPositions)},
                      attributes);
}

std::int64_t token_stride(const TensorView& view, int trailing, const TensorView& x, int axis) {
  const int own = axis - (x.ndim() - 2) + (view.ndim() - trailing);
  return own >= 0 && view.shape[own] > 1 ? view.strides[own] : 0;
}

std::vector<TensorMeta> infer(const CallInputs& inputs, const Attributes& attributes) {
  rope_problem(inputs, attributes);
  return {{inputs[kX].dtype, inputs[kX].shape}};
}

}  // namespace kiln::rope
