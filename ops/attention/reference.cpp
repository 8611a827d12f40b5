#include "ops/attention/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "ops/attention/problem.hpp"
#include "ops/common/element.hpp"
#include "ops/common/tolerance.hpp"

namespace kiln::attention {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Rows = std::vector<std::vector<double>>;

/// A tensor's element of up to four coordinates, of which those that it lacks come first and count for nothing, as
/// those along an axis of one element.
double broadcast_element(const TensorView& view, const std::vector<std::int64_t>& coordinates) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < view.ndim(); ++axis) {
    const auto coordinate = coordinates.size() - static_cast<std::size_t>(view.ndim() - axis);
    if (view.shape[axis] > 1) offset += coordinates[coordinate] * view.strides[axis];
  }
  return common::load_at<double>(view, offset);
}

/// The rows of one request's head.
Rows rows_of(const TensorView& view, const AttentionProblem& problem, std::int64_t request, std::int64_t head) {
  const std::int64_t first = request * view.strides[0] + head * view.strides[problem.head_axis()];
  Rows rows;
  for (std::int64_t row = 0; row < view.shape[problem.row_axis()]; ++row)
    for (std::int64_t i = 0; i < view.shape[3]; ++i) {
      if (i == 0) rows.emplace_back();
      rows.back().push_back(
          common::load_at<double>(view, first + row * view.strides[problem.row_axis()] + i * view.strides[3]));
    }
  return rows;
}

/// What a key's score is, -inf where the query does not see it.
double score_of(const AttentionProblem& problem, double product, std::int64_t request, std::int64_t head,
                std::int64_t query, std::int64_t key) {
  double score = product * problem.scale;
  if (problem.softcap > 0) score = problem.softcap * std::tanh(score / problem.softcap);
  if (problem.slopes != nullptr)
    score -= broadcast_element(*problem.slopes, {request, head}) *
             static_cast<double>(std::abs(key - query - problem.diagonal));
  if (problem.mask == nullptr) return score;
  const double mask = broadcast_element(*problem.mask, {request, head, query, key});
  return problem.mask->dtype != DType::bool_ ? score + mask : mask != 0 ? score : -kInfinity;
}

struct Scores {
  std::vector<double> weights;  ///< of the keys from `first` on
  std::int64_t first = 0;
  double nothing = 0;  ///< what a row without keys is: NaN where its sink is infinite or NaN, as rows with keys are
  double lse = -kInfinity;
};

Scores softmax_of(const AttentionProblem& problem, const std::vector<double>& q, const Rows& k, std::int64_t request,
                  std::int64_t head, std::int64_t query) {
  Scores row;
  row.first = problem.first_key(query);
  const double scales =
      problem.query_scale.at(request, head / problem.group()) * problem.key_scale.at(request, head / problem.group());
  for (std::int64_t key = row.first; key < problem.end_key(query); ++key) {
    double product = 0;
    for (std::size_t i = 0; i < q.size(); ++i) product += q[i] * k[static_cast<std::size_t>(key)][i];
    product *= scales;
    row.weights.push_back(score_of(problem, product, request, head, query, key));
  }
  const double sink = problem.sinks != nullptr ? broadcast_element(*problem.sinks, {head}) : -kInfinity;
  double largest = sink;
  for (const double score : row.weights) largest = std::isnan(score) || score > largest ? score : largest;
  if (largest == -kInfinity) {
    std::ranges::fill(row.weights, 0.0);
    return row;
  }
  double total = std::exp(sink - largest);
  for (double& weight : row.weights) total += weight = std::exp(weight - largest);
  for (double& weight : row.weights) weight /= total;
  row.nothing = 0 / total;
  row.lse = largest + std::log(total);
  return row;
}

}  // namespace

void attention_reference(const OpCall& call) {
  attend_in_double(attention_problem(call.inputs, call.attributes), call.inputs[kQuery], call.inputs[kKey],
                   call.inputs[kValue], call.outputs);
}

void attend_in_double(const AttentionProblem& problem, const TensorView& query_view, const TensorView& key_view,
                      const TensorView& value_view, std::span<const TensorView> outputs) {
  const TensorView& out = outputs[0];
  for (std::int64_t request = 0; request < problem.batch; ++request)
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      const Rows q = rows_of(query_view, problem, request, head);
      const Rows k = rows_of(key_view, problem, request, head / problem.group());
      const Rows v = rows_of(value_view, problem, request, head / problem.group());
      for (std::int64_t query = 0; query < problem.queries; ++query) {
        const Scores row = softmax_of(problem, q[static_cast<std::size_t>(query)], k, request, head, query);
        std::vector<double> sums(static_cast<std::size_t>(problem.value_dim), row.nothing);
        for (std::size_t key = 0; key < row.weights.size(); ++key)
          for (std::size_t i = 0; i < sums.size(); ++i)
            sums[i] += row.weights[key] * v[static_cast<std::size_t>(row.first) + key][i];
        std::int64_t at = request * out.strides[0] + head * out.strides[problem.head_axis()] +
                          query * out.strides[problem.row_axis()];
        const double value_scale = problem.value_scale.at(request, head / problem.group());
        for (const double sum : sums) {
          common::store_at<double>(out, at, sum * value_scale);
          at += out.strides[3];
        }
        if (problem.returns_lse) {
          const TensorView& lse = outputs[1];
          common::store_at<double>(lse, request * lse.strides[0] + head * lse.strides[1] + query * lse.strides[2],
                                   row.lse);
        }
      }
    }
}

Tolerance attention_tolerance(DType out) {
  // A weight that is rounded to 8 or 11 bits is off by half a unit, and weights add up to 1: so are values of up to 4.
  // Beside that, scores of some tens are off by a few units of float.
  switch (out) {
    case DType::bf16:
      return rounded_to(out, {1e-4, 0x1p-7 + 1e-4});
    case DType::f16:
      return rounded_to(out, {1e-4, 0x1p-10 + 1e-4});
    default:
      return {1e-4, 1e-4};
  }
}

Tolerance score_tolerance(DType queries, DType out) {
  // A unit of 2^-13 of a sum for each 32 of up to 256 numbers, of scores of up to 4.
  if (is_fp8(queries) && out == DType::f32) return {0x1p-10, 0x1p-8};
  return {};
}

}  // namespace kiln::attention
