#include "ops/attention/examples.hpp"

#include <cstdint>
#include <string>

#include "ops/attention/problem.hpp"
#include "ops/common/random_shape.hpp"

namespace kiln::attention {
namespace {

constexpr DType kDTypes[] = {DType::bf16, DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2};

/// q, k and v, [B, S, H, D].
std::vector<TensorMeta> heads(DType dtype, const Dims& q, std::int64_t keys, std::int64_t key_heads,
                              std::int64_t value_dim) {
  return {{dtype, q}, {dtype, {q[0], keys, key_heads, q[3]}}, {dtype, {q[0], keys, key_heads, value_dim}}};
}

/// One that broadcasts to `scores`.
TensorMeta random_mask(DType dtype, const Dims& scores, std::mt19937_64& random) {
  const DType types[] = {DType::bool_, is_fp8(dtype) ? DType::bool_ : dtype, DType::f32};
  Dims shape;
  const int rank = static_cast<int>(random() % 5);
  for (int axis = 4 - rank; axis < 4; ++axis) shape.push_back(random() % 3 == 0 ? 1 : scores[axis]);
  return {common::one_of(types, random), shape};
}

}  // namespace

std::vector<Example> attention_examples() {
  const std::string bottom_right = "bottom_right", top_left = "top_left";
  std::vector<Example> examples = {
      {heads(DType::bf16, {2, 256, 4, 64}, 256, 4, 64), {{"causal", bottom_right}}},
      {heads(DType::f32, {2, 100, 6, 64}, 77, 2, 64), {{"return_lse", true}}},
      {heads(DType::f16, {1, 130, 4, 128}, 130, 4, 128), {{"causal", top_left}, {"softcap", 20.0}}},
      {heads(DType::bf16, {1, 67, 3, 192}, 140, 1, 128), {{"causal", bottom_right}, {"return_lse", true}}},
      {heads(DType::f32, {2, 0, 2, 32}, 5, 1, 32), {}},
      {heads(DType::f32, {2, 5, 2, 32}, 0, 1, 32), {{"return_lse", true}}},
      {heads(DType::bf16, {1, 140, 2, 96}, 140, 1, 96), {{"causal", bottom_right}, {"return_lse", true}}},
      {heads(DType::f16, {1, 70, 2, 192}, 200, 2, 192), {{"causal", bottom_right}}},
      {heads(DType::bf16, {1, 65, 2, 80}, 65, 2, 160), {}},
      {heads(DType::bf16, {1, 300, 2, 256}, 300, 2, 256), {{"window", std::vector<std::int64_t>{60, 0}}}},
  };
  Example masked{heads(DType::f32, {2, 50, 2, 40}, 60, 2, 40), {{"layout", std::string("BSHD")}}};
  masked.inputs.push_back({DType::bool_, {2, 1, 50, 60}});
  masked.inputs.push_back({DType::f32, {2}});
  masked.inputs.push_back({DType::f32, {2}});
  examples.push_back(masked);
  Example added{heads(DType::f16, {1, 33, 8, 96}, 65, 1, 96), {}};
  added.inputs.push_back({DType::f16, {33, 65}});
  examples.push_back(added);
  Example narrow{heads(DType::fp8e4m3, {2, 140, 8, 128}, 150, 2, 128),
                 {{"causal", bottom_right}, {"out_dtype", DType::f16}, {"return_lse", true}}};
  for (int i = 0; i < 3; ++i) narrow.inputs.push_back(TensorMeta::left_out());
  for (const Dims& scales : {Dims{2, 2}, Dims{2}, Dims{}}) narrow.inputs.push_back({DType::f32, scales});
  examples.push_back(narrow);
  return examples;
}

Example random_attention_example(std::mt19937_64& random) {
  constexpr std::int64_t kLengths[] = {0, 1, 3, 16, 31, 64, 65, 113, 128, 150, 203, 257};
  constexpr std::int64_t kDims[] = {1, 8, 32, 40, 64, 72, 80, 96, 128, 192, 256};
  constexpr std::int64_t kGroups[] = {1, 1, 2, 3, 7, 8};
  const DType dtype = common::one_of(kDTypes, random);
  const std::int64_t batch = 1 + common::random_up_to(1, random), key_heads = 1 + common::random_up_to(1, random);
  const std::int64_t query_heads = key_heads * common::one_of(kGroups, random);
  const std::int64_t queries = common::one_of(kLengths, random), dim = common::one_of(kDims, random);
  const std::int64_t keys = random() % 2 == 0 ? queries : common::one_of(kLengths, random);
  const std::int64_t value_dim = random() % 2 == 0 ? dim : common::one_of(kDims, random);

  Example example{heads(dtype, {batch, queries, query_heads, dim}, keys, key_heads, value_dim), {}};
  if (random() % 4 == 0) example.inputs[kKey].dtype = example.inputs[kValue].dtype = DType::fp8e4m3;
  Attributes& attributes = example.attributes;
  if (random() % 2 == 0) {
    attributes.set("layout", std::string("BHSD"));
    for (TensorMeta& meta : example.inputs) std::swap(meta.shape[1], meta.shape[2]);
  }
  const std::string causal[] = {"none", "top_left", "bottom_right"};
  attributes.set("causal", common::one_of(causal, random));
  if (random() % 3 == 0)
    attributes.set("window", std::vector<std::int64_t>{common::random_up_to(100, random) - 1,
                                                       common::random_up_to(100, random) - 1});
  if (random() % 4 == 0) attributes.set("scale", random() % 2 == 0 ? -0.25 : 0.5);
  if (random() % 4 == 0) attributes.set("softcap", 5.0);
  if (random() % 2 == 0) attributes.set("return_lse", true);
  const TensorMeta more[] = {random_mask(dtype, {batch, query_heads, queries, keys}, random),
                             {DType::f32, random() % 2 == 0 ? Dims{query_heads} : Dims{batch, query_heads}},
                             {random() % 2 == 0 && !is_fp8(dtype) ? dtype : DType::f32, {query_heads}},
                             {DType::f32, {batch, key_heads}},
                             {DType::f32, {key_heads}},
                             {DType::f32, {}}};
  for (const TensorMeta& meta : more) example.inputs.push_back(random() % 3 == 0 ? meta : TensorMeta::left_out());
  while (example.inputs.back().absent) example.inputs.pop_back();
  return example;
}

}  // namespace kiln::attention
