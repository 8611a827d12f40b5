#include "ops/rope/reference.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include "ops/common/element.hpp"
#include "ops/common/position.hpp"
#include "ops/common/tolerance.hpp"
#include "ops/rope/problem.hpp"

namespace kiln::rope {
namespace {

struct Rotation {
  double cosine = 0, sine = 0;
};

/// Where a token's place, an element of `view` but for its last `trailing` dimensions, lies.
std::int64_t token_offset(const TensorView& view, int trailing, const TensorView& x, const Dims& token) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < token.size(); ++axis) offset += token[axis] * token_stride(view, trailing, x, axis);
  return offset;
}

/// The token's rotations, one for each pair. `turns` are of the pairs, in one position.
std::vector<Rotation> rotations_of(const RopeProblem& problem, const TensorView& x, const Dims& token,
                                   const std::vector<long double>& turns) {
  std::vector<Rotation> rotations(static_cast<std::size_t>(problem.pairs()));
  std::int64_t position = token[token.size() - 1];
  if (problem.positions != nullptr) {
    position = common::load_at<std::int64_t>(*problem.positions, token_offset(*problem.positions, 0, x, token));
    if (position < 0 || position >= problem.num_positions) return rotations;
  }
  const auto table_at = [&](const TensorView& table, std::int64_t pair) {
    const int rank = table.ndim();
    const std::int64_t row = problem.positions != nullptr
                                 ? (table.shape[rank - 2] > 1 ? position * table.strides[rank - 2] : 0)
                                 : token_offset(table, 1, x, token);
    return common::load_at<double>(table, row + pair * table.strides[rank - 1]);
  };
  for (std::int64_t pair = 0; pair < problem.pairs(); ++pair) {
    Rotation& rotation = rotations[static_cast<std::size_t>(pair)];
    if (problem.cos != nullptr) {
      rotation = {table_at(*problem.cos, pair), table_at(*problem.sin, pair)};
    } else {
      const long double all = static_cast<long double>(position) * turns[static_cast<std::size_t>(pair)];
      const long double angle = (all - std::floor(all)) * 2 * std::numbers::pi_v<long double>;
      rotation = {static_cast<double>(std::cos(angle)), static_cast<double>(std::sin(angle))};
    }
    if (problem.inverse) rotation.sine = -rotation.sine;
  }
  return rotations;
}

}  // namespace

void rotate(const RopeProblem& problem, const TensorView& x, const TensorView& out) {
  std::vector<long double> turns;
  if (problem.cos == nullptr)
    for (std::int64_t pair = 0; pair < problem.pairs(); ++pair) turns.push_back(problem.frequencies.turns(pair));
  const int last = x.ndim() - 1;
  common::for_each_line(
      x.shape, [&](int axis) { return axis >= last - 1; },
      [&](const Dims& start) {
        const Dims token(start.span().first(static_cast<std::size_t>(last - 1)));
        const std::vector<Rotation> rotations = rotations_of(problem, x, token, turns);
        const std::int64_t from = common::offset_at(x, start), to = common::offset_at(out, start);
        for (std::int64_t head = 0; head < x.shape[last - 1]; ++head) {
          const std::int64_t head_from = from + head * x.strides[last - 1], head_to = to + head * out.strides[last - 1];
          const auto value = [&](std::int64_t i) {
            return common::load_at<double>(x, head_from + i * x.strides[last]);
          };
          const auto put = [&](std::int64_t i, double number) {
            common::store_at<double>(out, head_to + i * out.strides[last], number);
          };
          for (std::int64_t pair = 0; pair < problem.pairs(); ++pair) {
            const auto [cosine, sine] = rotations[static_cast<std::size_t>(pair)];
            const std::int64_t first = problem.first_of(pair), second = problem.second_of(pair);
            const double a = value(first), b = value(second);
            put(first, a * cosine - b * sine);
            put(second, b * cosine + a * sine);
          }
          for (std::int64_t i = problem.rotary_dim; i < problem.head_dim; ++i) put(i, value(i));
        }
      });
}

void rope_reference(const OpCall& call) {
  rotate(rope_problem(call.inputs, call.attributes), call.inputs[kX], call.outputs[0]);
}

Tolerance rope_tolerance(DType out) {
  // Numbers of up to 4 times cosines and sines that are off by 2^-23, and three roundings.
  return rounded_to(out, {0x1p-22, 2 * 4 * 0x1p-23 + 4 * 0x1p-23});
}

}  // namespace kiln::rope
