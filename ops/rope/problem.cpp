#include "ops/rope/problem.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/errors.hpp"

namespace kiln::rope {
namespace {

std::int64_t rotary_dim_of(const Attributes& attributes, std::int64_t head_dim) {
  const std::int64_t given = attributes.get_int("rotary_dim");
  const std::int64_t rotary_dim = given == 0 ? head_dim : given;
  if (rotary_dim > head_dim)
    throw_value_error(
        fmt::format("op '{}': attribute 'rotary_dim' is {}, but the heads of input 'x' have {} numbers; expected no "
                    "more than these, or 0 for all of them",
                    kOp, rotary_dim, head_dim));
  if (rotary_dim < 2 || rotary_dim > kMostRotaryDim || rotary_dim % 2 != 0)
    throw_value_error(fmt::format("op '{}': attribute 'rotary_dim' is {}{}, expected an even number from 2 to {}", kOp,
                                  given, given == 0 ? fmt::format(", all {} numbers of x's heads", head_dim) : "",
                                  kMostRotaryDim));
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

void check_positions(const TensorView& positions, const TensorView& x) {
  if (!broadcasts(positions, 0, token_shape(x)))
    throw_value_error(
        fmt::format("op '{}': input 'positions' has shape {}, which does not broadcast to {}, one for each token of "
                    "'x' {}",
                    kOp, to_string(positions.shape), to_string(token_shape(x)), to_string(x.shape)));
}

void check_table_dtype(std::string_view name, const TensorView& table, const TensorView& x) {
  if (table.dtype != DType::f32 && table.dtype != x.dtype)
    throw_type_error(fmt::format("op '{}': input '{}' is {}, expected f32{}", kOp, name, kiln::name(table.dtype),
                                 x.dtype == DType::f32 ? "" : fmt::format(" or {}, as 'x' is", kiln::name(x.dtype))));
}

void check_tables(const RopeProblem& problem, const TensorView& x) {
  const TensorView &cos = *problem.cos, &sin = *problem.sin;
  check_table_dtype("cos", cos, x);
  if (sin.dtype != cos.dtype)
    throw_type_error(
        fmt::format("op '{}': input 'sin' is {}, expected {}, as 'cos' is", kOp, name(sin.dtype), name(cos.dtype)));
  const int rank = cos.ndim();
  if (rank < 2 || cos.shape[rank - 1] != problem.pairs())
    throw_value_error(fmt::format(
        "op '{}': input 'cos' has shape {}, expected [{}, {}]: a column for each pair of the {} numbers that turn{}",
        kOp, to_string(cos.shape), problem.positions != nullptr ? "positions" : "T", problem.pairs(),
        problem.rotary_dim,
        rank >= 1 && cos.shape[rank - 1] == problem.rotary_dim
            ? "; of one that has each number twice, give the first half"
            : ""));
  if (sin.shape != cos.shape)
    throw_value_error(fmt::format("op '{}': input 'sin' has shape {}, expected that of 'cos', {}", kOp,
                                  to_string(sin.shape), to_string(cos.shape)));
  if (problem.positions != nullptr) {
    if (rank != 2)
      throw_value_error(
          fmt::format("op '{}': input 'cos' has shape {}, expected two dimensions beside 'positions', which name its "
                      "rows",
                      kOp, to_string(cos.shape)));
    return;
  }
  if (cos.shape[rank - 2] < problem.tokens)
    throw_value_error(
        fmt::format("op '{}': input 'cos' has {} rows for the {} tokens of 'x'; expected one for each, or 'positions'",
                    kOp, cos.shape[rank - 2], problem.tokens));
  const Dims lead(x.shape.span().first(static_cast<std::size_t>(x.ndim() - 3)));
  if (!broadcasts(cos, 2, lead))
    throw_value_error(
        fmt::format("op '{}': input 'cos' has shape {}, whose dimensions before the last two do not "
                    "broadcast to {}, those of 'x' before its tokens",
                    kOp, to_string(cos.shape), to_string(lead)));
}

/// Attributes that say what the tables say already.
void check_no_frequencies(const Attributes& attributes) {
  const bool scales = attributes.get_string("scaling") != "none" || attributes.get_double("factor") != 1;
  if (scales || attributes.get_double("base") != kDefaultBase)
    throw_value_error(
        fmt::format("op '{}': attribute '{}' is given beside inputs 'cos' and 'sin', which hold the "
                    "angles already; leave out one or the other",
                    kOp, scales ? "scaling" : "base"));
}

}  // namespace

RopeProblem rope_problem(const CallInputs& inputs, const Attributes& attributes) {
  const TensorView& x = inputs[kX];
  if (x.ndim() < 3)
    throw_value_error(fmt::format("op '{}': input 'x' has shape {}, expected three dimensions or more, [..., T, H, D]",
                                  kOp, to_string(x.shape)));
  RopeProblem problem;
  problem.tokens = x.shape[x.ndim() - 3];
  problem.heads = x.shape[x.ndim() - 2];
  problem.head_dim = x.shape[x.ndim() - 1];
  problem.rotary_dim = rotary_dim_of(attributes, problem.head_dim);
  problem.interleaved = attributes.get_bool("interleaved");
  problem.inverse = attributes.get_bool("inverse");
  problem.cos = inputs.find(kCos);
  problem.sin = inputs.find(kSin);
  problem.positions = inputs.find(kPositions);
  if ((problem.cos == nullptr) != (problem.sin == nullptr))
    throw_value_error(
        fmt::format("op '{}': input '{}' is given without '{}'; expected both, or neither and attribute "
                    "'base'",
                    kOp, problem.cos != nullptr ? "cos" : "sin", problem.cos != nullptr ? "sin" : "cos"));
  if (problem.positions != nullptr) check_positions(*problem.positions, x);
  if (problem.cos != nullptr) {
    check_tables(problem, x);
    check_no_frequencies(attributes);
    problem.num_positions = problem.cos->shape[problem.cos->ndim() - 2];
  } else {
    problem.frequencies = frequencies(kOp, attributes, problem.pairs());
    problem.num_positions = kMostPositions;
  }
  return problem;
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
