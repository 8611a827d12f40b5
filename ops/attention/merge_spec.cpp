#include "ops/attention/merge_spec.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/merge_call.hpp"
#include "ops/attention/merge_launch.hpp"
#include "ops/common/element.hpp"
#include "ops/common/position.hpp"
#include "ops/common/random_shape.hpp"
#include "ops/common/tolerance.hpp"
#include "ops/common/traffic.hpp"

namespace kiln::attention {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// In double, place by place.
void merge_reference(const OpCall& call) {
  const TensorView &outs = call.inputs[0], &lses = call.inputs[1], &out = call.outputs[0];
  const int last = out.ndim() - 1;
  Dims places;
  for (int axis = 0; axis < last; ++axis) places.push_back(out.shape[axis]);
  common::for_each_position(places, [&](const Dims& start) {
    std::int64_t to = 0, from = 0, scores = 0, lse = 0;
    for (int axis = 0; axis < last; ++axis) {
      to += start[axis] * out.strides[axis];
      from += start[axis] * outs.strides[axis + 1];
      scores += start[axis] * lses.strides[axis + 1];
      if (call.outputs.size() > 1) lse += start[axis] * call.outputs[1].strides[axis];
    }
    std::vector<double> row(static_cast<std::size_t>(out.shape[last]));
    double largest = kNothing, total = 0;
    const auto score = [&](std::int64_t part) {
      return common::load_at<double>(lses, scores + part * lses.strides[0]);
    };
    for (std::int64_t part = 0; part < outs.shape[0]; ++part)
      largest = std::isnan(score(part)) || score(part) > largest ? score(part) : largest;
    for (std::int64_t part = 0; part < outs.shape[0]; ++part) {
      if (score(part) == kNothing) continue;
      const double weight = std::exp(score(part) - largest);
      total += weight;
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] += weight * common::load_at<double>(outs, from + part * outs.strides[0] +
                                                             static_cast<std::int64_t>(i) * outs.strides[last + 1]);
    }
    for (std::size_t i = 0; i < row.size(); ++i)
      common::store_at<double>(out, to + static_cast<std::int64_t>(i) * out.strides[last],
                               total == 0 ? 0 : row[i] / total);
    if (call.outputs.size() > 1)
      common::store_at<double>(call.outputs[1], lse, total == 0 ? kNothing : largest + std::log(total));
  });
}

Example merge_example(DType dtype, const Dims& outs, bool returns_lse) {
  Dims lses;
  for (int axis = 0; axis + 1 < outs.size(); ++axis) lses.push_back(outs[axis]);
  return {{{dtype, outs}, {DType::f32, lses}}, {{"return_lse", returns_lse}}};
}

Example random_merge_example(std::mt19937_64& random) {
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
  constexpr std::int64_t kParts[] = {0, 1, 2, 3, 8, 9, 33}, kDims[] = {0, 1, 8, 64, 80, 128, 129, 512};
  Dims shape{common::one_of(kParts, random)};
  for (const std::int64_t extent : common::random_shape({.most_rank = 3, .most_elements = 30}, random))
    shape.push_back(extent);
  shape.push_back(common::one_of(kDims, random));
  return merge_example(common::one_of(kTypes, random), shape, random() % 2 == 0);
}

}  // namespace

OpSpec merge_spec() {
  OpSpec spec;
  spec.name = kMergeOp;
  spec.doc =
      "attention out of what it is for disjoint sets of keys: sum(exp(lses) * outs) / sum(exp(lses)) over dimension 0; "
      "a part with lse -inf counts for nothing, and where all have it the result is 0 and lse -inf";
  InputSpec lses{"lses", "[parts, ..., H], f32: each part's natural logarithm of the sum of exp(score)"};
  lses.dtypes = {DType::f32};
  spec.inputs = {{"outs", "[parts, ..., H, Dv], any strides"}, std::move(lses)};
  spec.outputs = {{"out", "[..., H, Dv]"}, {"lse", "[..., H], f32, with return_lse"}};
  spec.attributes = {{"return_lse", false, false, "lse is a second output"}};
  spec.dtypes = {DType::f32, DType::f16, DType::bf16};
  spec.infer = infer_merge;
  spec.variants = merge_variants();
  spec.cost = [](const OpCall& call) {
    return Cost{2 * static_cast<double>(call.inputs[0].numel()), common::sum_of_tensors(call, common::stored_bytes)};
  };
  spec.reference = merge_reference;
  spec.examples = {merge_example(DType::bf16, {2, 512, 8, 128}, true),
                   merge_example(DType::f32, {9, 3, 7, 4, 80}, false), merge_example(DType::f16, {1, 5, 64}, true),
                   merge_example(DType::f32, {0, 5, 64}, true), merge_example(DType::bf16, {33, 600}, true)};
  spec.random_example = random_merge_example;
  spec.tolerance = [](DType out) { return rounded_to(out, {1e-5, 1e-5}); };
  return spec;
}

}  // namespace kiln::attention
