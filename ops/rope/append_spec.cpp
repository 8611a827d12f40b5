#include "ops/rope/append_spec.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "ops/common/traffic.hpp"
#include "ops/rope/append_examples.hpp"
#include "ops/rope/append_launch.hpp"
#include "ops/rope/append_problem.hpp"
#include "ops/rope/append_reference.hpp"
#include "ops/rope/attributes.hpp"
#include "ops/rope/reference.hpp"

namespace kiln::rope {
namespace {

InputSpec mutated_input(std::string name, std::string doc) {
  InputSpec input{std::move(name), std::move(doc)};
  input.mutated = true;
  return input;
}

InputSpec cache_input(std::string name, std::string doc) {
  InputSpec input = mutated_input(std::move(name), std::move(doc));
  input.dtypes = {DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2};
  return input;
}

InputSpec scale_input(std::string name, std::string_view scaled) {
  InputSpec input{
      std::move(name),
      fmt::format("[], [1] or [H], f32: {} are divided by it on their way into a cache of fp8, and end at its "
                  "largest number",
                  scaled),
      true};
  input.dtypes = {DType::f32};
  return input;
}

InputSpec slots_input() {
  InputSpec input{"slot_mapping", "[T], i32 or i64"};
  input.dtypes = {DType::i32, DType::i64};
  input.selects = [](const OpCall& call) -> std::vector<SelectionRange> {
    const kv_cache::CacheShape shape =
        kv_cache::cache_shape(call.inputs[kKeyCache].shape, kv_cache::page_layout(kAppendOp, call.attributes));
    return {{.low = 0, .high = shape.num_blocks * shape.page - 1, .distinct = true}};
  };
  return input;
}

/// q, keys and values are read and written once.
Cost append_cost(const OpCall& call) {
  const RopeProblem rotation = append_problem(call.inputs, call.attributes).rotation;
  const TensorView &q = call.inputs[kQuery], &key = call.inputs[kKey];
  const double ratio = static_cast<double>(itemsize_bytes(call.inputs[kKeyCache].dtype)) /
                       static_cast<double>(itemsize_bytes(key.dtype));
  const double moved = 2 * common::whole_bytes(q) + 2 * (1 + ratio) * common::whole_bytes(key);
  const auto turned = static_cast<double>(rotation.tokens * rotation.rotary_dim * (q.shape[1] + key.shape[1]));
  double bytes = moved + common::stored_bytes(call.inputs[kSlots]);
  if (rotation.positions != nullptr) bytes += common::stored_bytes(*rotation.positions);
  if (rotation.cos != nullptr)
    bytes += 2 * static_cast<double>(rotation.tokens * rotation.pairs() * itemsize_bytes(rotation.cos->dtype));
  return {3 * turned, bytes};
}

}  // namespace

OpSpec rope_append_spec() {
  OpSpec spec;
  spec.name = kAppendOp;
  spec.doc =
      "rope of q where it lies, and kv_append of the key, turned likewise, and the value: in one launch; tokens whose "
      "slot is negative or none of the cache's have q turned alone";
  spec.inputs = {
      mutated_input("q", "[T, Hq, D], any strides"),
      {"key", "[T, H, D], any strides; stays as it is"},
      {"value", "as key"},
      cache_input("key_cache", "[blocks, page, H, D], or [blocks, H, page, D] with layout HND, of key's dtype or fp8"),
      cache_input("value_cache", "as key_cache"),
      slots_input()};
  for (const InputSpec& input : table_inputs()) spec.inputs.push_back(input);
  spec.inputs.push_back(positions_input(
      "i64 or i32, [T] or [1]: the row of cos and sin that serves a token, or its place where these are not given; "
      "without it token t is at t",
      [](const OpCall& call) { return append_problem(call.inputs, call.attributes).rotation.num_positions; }));
  spec.inputs.push_back(scale_input("k_scale", "keys"));
  spec.inputs.push_back(scale_input("v_scale", "values"));
  spec.attributes = rotation_attributes();
  spec.attributes.push_back(kv_cache::layout_attribute());
  spec.dtypes = {DType::f32, DType::f16, DType::bf16};
  // As kv_append's and rope's.
  for (const int tokens : {kQuery, kKey, kValue, kSlots, kAppendPositions})
    spec.shape_rule.parts.push_back(
        {.input = tokens, .axis = 0, .bucket = ShapeKeyRule::Bucket::power_of_two, .exact_up_to = 16});
  for (const int any : {kKeyCache, kValueCache, kAppendCos, kAppendSin})
    spec.shape_rule.parts.push_back({.input = any, .axis = 0, .bucket = ShapeKeyRule::Bucket::any});
  spec.infer = infer_append;
  spec.variants = append_variants();
  spec.cost = append_cost;
  spec.reference = rope_append_reference;
  spec.examples = append_examples();
  spec.random_example = random_append_example;
  spec.spoil_inputs = spoil_append;
  spec.skipped_work = skipped_by_append;
  spec.tolerance = rope_tolerance;
  spec.input_ranges = {{}, {}, {}, {}, {}, {}, {-1, 1}, {-1, 1}, {}, {0.5, 4}, {0.5, 4}};
  return spec;
}

}  // namespace kiln::rope
