#include "ops/rope/append_examples.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "ops/common/element.hpp"
#include "ops/common/random_shape.hpp"
#include "ops/rope/append_problem.hpp"

namespace kiln::rope {
namespace {

constexpr DType kAppendDTypes[] = {DType::bf16, DType::f32, DType::f16};

struct AppendShape {
  std::int64_t tokens, query_heads, heads, dim, blocks, page;
};

Example call_of(DType dtype, const AppendShape& shape, bool is_hnd, Attributes attributes) {
  const auto [tokens, query_heads, heads, dim, blocks, page] = shape;
  const Dims rows{tokens, heads, dim}, cache = is_hnd ? Dims{blocks, heads, page, dim} : Dims{blocks, page, heads, dim};
  Example example{{{dtype, {tokens, query_heads, dim}},
                   {dtype, rows},
                   {dtype, rows},
                   {dtype, cache},
                   {dtype, cache},
                   {DType::i64, {tokens}}},
                  std::move(attributes)};
  if (is_hnd) example.attributes.set("layout", std::string("HND"));
  return example;
}

void add_rotation(Example& example, DType table, const Dims& table_shape, bool has_positions, DType position) {
  const TensorMeta none = TensorMeta::left_out();
  const TensorMeta tables = table_shape.empty() ? none : TensorMeta{table, table_shape};
  example.inputs.push_back(tables);
  example.inputs.push_back(tables);
  example.inputs.push_back(has_positions ? TensorMeta{position, {example.inputs[kQuery].shape[0]}} : none);
  while (example.inputs.back().absent) example.inputs.pop_back();
}

/// Caches of 8 bits, and scales of these shapes.
void quantise(Example& example, DType cache, const Dims& k_scale, const Dims& v_scale) {
  example.inputs[kKeyCache].dtype = example.inputs[kValueCache].dtype = cache;
  example.inputs.resize(kAppendKeyScale, TensorMeta::left_out());
  example.inputs.push_back({DType::f32, k_scale});
  example.inputs.push_back({DType::f32, v_scale});
}

std::int64_t num_slots(const OpCall& call) {
  const TensorView& cache = call.inputs[kKeyCache];
  const kv_cache::CacheShape shape =
      kv_cache::cache_shape(cache.shape, kv_cache::page_layout(kAppendOp, call.attributes));
  return shape.num_blocks * shape.page;
}

}  // namespace

std::vector<Example> append_examples() {
  std::vector<Example> examples;
  examples.push_back(call_of(DType::bf16, {100, 32, 8, 128, 16, 16}, false, {}));
  add_rotation(examples.back(), DType::f32, {4096, 64}, true, DType::i64);
  examples.push_back(call_of(DType::f32, {33, 6, 2, 80, 9, 4}, true, {{"rotary_dim", std::int64_t{32}}}));
  add_rotation(examples.back(), DType::f32, {}, true, DType::i32);
  examples.push_back(call_of(DType::f16, {7, 4, 4, 64, 3, 5}, false, {{"interleaved", true}}));
  add_rotation(examples.back(), DType::f16, {7, 32}, false, DType::i32);
  examples.push_back(call_of(DType::f32, {0, 2, 1, 64, 3, 16}, false, {}));
  examples.push_back(call_of(DType::bf16, {40, 8, 2, 128, 9, 16}, false, {{"rotary_dim", std::int64_t{96}}}));
  add_rotation(examples.back(), DType::f32, {4096, 48}, true, DType::i64);
  quantise(examples.back(), DType::fp8e4m3, {2}, {});
  return examples;
}

Example random_append_example(std::mt19937_64& random) {
  constexpr std::int64_t kHeads[] = {1, 1, 2, 3, 8}, kDims[] = {2, 16, 32, 64, 80, 96, 128, 256},
                         kPages[] = {1, 3, 8, 16};
  const DType dtype = common::one_of(kAppendDTypes, random);
  const std::int64_t heads = common::one_of(kHeads, random), dim = common::one_of(kDims, random);
  const std::int64_t tokens = common::random_up_to(random() % 8 == 0 ? 150 : 30, random);
  Example example = call_of(dtype,
                            {.tokens = tokens,
                             .query_heads = heads * (1 + common::random_up_to(4, random)),
                             .heads = heads,
                             .dim = dim,
                             .blocks = random() % 20 == 0 ? 0 : 1 + common::random_up_to(20, random),
                             .page = common::one_of(kPages, random)},
                            random() % 2 == 0, {{"interleaved", random() % 2 == 0}});
  example.inputs[kSlots].dtype = common::random_index_dtype(random);
  std::int64_t rotary_dim = dim;
  if (random() % 3 == 0) {
    rotary_dim = 2 + 2 * common::random_up_to(dim / 2 - 1, random);
    example.attributes.set("rotary_dim", rotary_dim);
  }
  const bool has_positions = random() % 3 != 0;
  Dims table;
  if (random() % 2 == 0) {
    table = {has_positions ? common::random_extent(500, random) : tokens + common::random_up_to(2, random),
             rotary_dim / 2};
  } else if (random() % 2 == 0) {
    example.attributes.set("scaling", std::string("llama3"));
    example.attributes.set("factor", 8.0);
  }
  add_rotation(example, random() % 2 == 0 ? dtype : DType::f32, table, has_positions,
               common::random_index_dtype(random));
  if (random() % 3 == 0) {
    quantise(example, random() % 2 == 0 ? DType::fp8e4m3 : DType::fp8e5m2, random() % 2 == 0 ? Dims{heads} : Dims{1},
             {});
    if (random() % 3 == 0) example.inputs.resize(kAppendKeyScale);
    while (example.inputs.back().absent) example.inputs.pop_back();
  }
  return example;
}

void spoil_append(const OpCall& call, std::mt19937_64& random) {
  const auto spoil = [&](const TensorView& view, std::int64_t end) {
    const std::int64_t outside[] = {-1, -3, end, end + 7};
    for (std::int64_t i = 0; i < view.shape[0]; ++i)
      if (random() % 8 == 0) common::store_at<std::int64_t>(view, i * view.strides[0], common::one_of(outside, random));
  };
  spoil(call.inputs[kSlots], num_slots(call));
  if (const TensorView* const positions = call.inputs.find(kAppendPositions); positions != nullptr && random() % 2 == 0)
    spoil(*positions, append_problem(call.inputs, call.attributes).rotation.num_positions);
}

SkippedWork skipped_by_append(const OpCall& call) {
  const RopeProblem rotation = append_problem(call.inputs, call.attributes).rotation;
  const auto is_one = [](const TensorView& view, std::int64_t token, std::int64_t end) {
    const auto entry = common::load_at<std::int64_t>(view, view.shape[0] > 1 ? token * view.strides[0] : 0);
    return entry >= 0 && entry < end;
  };
  SkippedWork work{.total = rotation.tokens, .what = "tokens"};
  for (std::int64_t token = 0; token < rotation.tokens; ++token)
    if (!is_one(call.inputs[kSlots], token, num_slots(call)) ||
        (rotation.positions != nullptr && !is_one(*rotation.positions, token, rotation.num_positions)))
      ++work.skipped;
  return work;
}

}  // namespace kiln::rope
