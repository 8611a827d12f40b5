#include "ops/rope/append_problem.hpp"

#include <fmt/format.h>

#include <span>
#include <tuple>

#include "core/errors.hpp"
#include "ops/common/element.hpp"
#include "ops/kv_cache/append_call.hpp"
#include "ops/rope/iteration_append.hpp"

namespace kiln::rope {

namespace {

void check_scales(const char* name, const TensorView& scales, std::int64_t heads, DType cache) {
  if (!is_fp8(cache))
    throw_value_error(fmt::format("op '{}': input '{}' is given where 'key_cache' is {}, expected a cache of fp8",
                                  kAppendOp, name, kiln::name(cache)));
  if (scales.ndim() > 1 || (scales.ndim() == 1 && scales.shape[0] != 1 && scales.shape[0] != heads))
    throw_value_error(
        fmt::format("op '{}': input '{}' has shape {}, expected (), (1) or ({}), a scale for each head of 'key'",
                    kAppendOp, name, to_string(scales.shape), heads));
}

}  // namespace

AppendProblem append_problem(const CallInputs& inputs, const Attributes& attributes) {
  AppendProblem problem;
  problem.layout = kv_cache::page_layout(kAppendOp, attributes);
  const TensorView &q = inputs[kQuery], &key = inputs[kKey];
  kv_cache::check_rank(kAppendOp, "q", q, 3, "[T, Hq, D]");
  kv_cache::check_append(kAppendOp, std::span<const TensorView>(inputs).subspan(kKey, kSlots), problem.layout,
                         /*quantises=*/true);
  if (q.dtype != key.dtype)
    throw_type_error(fmt::format("op '{}': input 'key' is {}, expected {}, as 'q' is; cast it", kAppendOp,
                                 name(key.dtype), name(q.dtype)));
  if (q.shape[0] != key.shape[0] || q.shape[2] != key.shape[2])
    throw_value_error(
        fmt::format("op '{}': input 'key' has shape {} and 'q' {}; expected as many tokens, and heads of one size",
                    kAppendOp, to_string(key.shape), to_string(q.shape)));
  problem.rotation = rope_problem({.op = kAppendOp,
                                   .x_name = "q",
                                   .x = q,
                                   .cos = inputs.find(kAppendCos),
                                   .sin = inputs.find(kAppendSin),
                                   .positions = inputs.find(kAppendPositions)},
                                  attributes);
  for (const auto& [input, kind, name] : {std::tuple{kAppendKeyScale, 0, "k_scale"}, {kAppendValueScale, 1, "v_scale"}})
    if (const TensorView* const scales = inputs.find(input)) {
      check_scales(name, *scales, key.shape[1], inputs[kKeyCache].dtype);
      problem.scales[kind] = scales;
    }
  return problem;
}

double scale_of_head(const TensorView* scales, std::int64_t head) {
  if (scales == nullptr) return 1;
  const bool is_one = scales->ndim() == 0 || scales->shape[0] == 1;
  return common::load_at<double>(*scales, is_one ? 0 : head * scales->strides[0]);
}

double largest_of(DType cache) {
  return cache == DType::fp8e4m3 ? ops::kLargestE4m3 : ops::kLargestE5m2;
}

std::vector<TensorMeta> infer_append(const CallInputs& inputs, const Attributes& attributes) {
  append_problem(inputs, attributes);
  return {};
}

}  // namespace kiln::rope
