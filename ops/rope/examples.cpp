#include "ops/rope/examples.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "ops/common/element.hpp"
#include "ops/common/random_shape.hpp"
#include "ops/rope/problem.hpp"

namespace kiln::rope {
namespace {

constexpr DType kDTypes[] = {DType::bf16, DType::f32, DType::f16};

Attributes llama3() {
  return {{"base", 500000.0},       {"scaling", std::string("llama3")}, {"factor", 8.0},
          {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},          {"original_max_position", std::int64_t{8192}}};
}

/// One that broadcasts to `shape`.
Dims random_broadcast(const Dims& shape, std::mt19937_64& random) {
  Dims result;
  const int dropped = shape.empty() ? 0 : static_cast<int>(common::random_up_to(shape.size() - 1, random));
  for (int axis = dropped; axis < shape.size(); ++axis) result.push_back(random() % 4 == 0 ? 1 : shape[axis]);
  return result;
}

void set_random_frequencies(Attributes& attributes, std::mt19937_64& random) {
  constexpr double kBases[] = {10000.0, 500000.0, 1e6, 1.5};
  switch (random() % 3) {
    case 0:
      attributes.set("scaling", std::string("linear"));
      attributes.set("factor", random() % 2 == 0 ? 1.0 : 2.5);
      break;
    case 1:
      for (const Attributes scaled = llama3(); const auto& [name, value] : scaled.entries())
        attributes.set(name, value);
      if (random() % 2 == 0) attributes.set("original_max_position", std::int64_t{1024});
      break;
    default:
      break;
  }
  attributes.set("base", common::one_of(kBases, random));
}

}  // namespace

std::vector<Example> rope_examples() {
  const auto positions = [](const Dims& shape, DType dtype = DType::i64) { return TensorMeta{dtype, shape}; };
  const auto with = [](Attributes attributes, const char* name, const AttributeValue& value) {
    attributes.set(name, value);
    return attributes;
  };
  const TensorMeta table{DType::f32, {4096, 64}};
  std::vector<Example> examples = {
      {{{DType::bf16, {512, 8, 128}}, table, table, positions({512})}, {}},
      {{{DType::f32, {2, 100, 6, 64}}, TensorMeta::left_out(), TensorMeta::left_out(), positions({2, 100}, DType::i32)},
       llama3()},
      {{{DType::f16, {130, 4, 128}}, TensorMeta::left_out(), TensorMeta::left_out(), positions({130})},
       {{"interleaved", true}}},
      {{{DType::f32, {2, 50, 3, 80}}, {DType::f32, {50, 16}}, {DType::f32, {50, 16}}},
       {{"rotary_dim", std::int64_t{32}}}},
      {{{DType::bf16, {2, 33, 1, 64}}, {DType::bf16, {2, 33, 32}}, {DType::bf16, {2, 33, 32}}},
       {{"interleaved", true}, {"inverse", true}}},
      {{{DType::f32, {3, 7, 2, 10}}}, {{"scaling", std::string("linear")}, {"factor", 4.0}}},
      {{{DType::bf16, {1, 32, 128}}, TensorMeta::left_out(), TensorMeta::left_out(), positions({1})},
       with(llama3(), "inverse", true)},
      {{{DType::f32, {0, 4, 16}}}, {}},
  };
  return examples;
}

Example random_rope_example(std::mt19937_64& random) {
  constexpr std::int64_t kLengths[] = {0, 1, 2, 3, 7, 16, 31, 64, 65, 150};
  constexpr std::int64_t kHeads[] = {0, 1, 2, 3, 5, 8, 16, 33};
  constexpr std::int64_t kDims[] = {2, 4, 6, 16, 32, 34, 64, 72, 80, 96, 128, 192, 256};
  const DType dtype = common::one_of(kDTypes, random);
  const std::int64_t dim = common::one_of(kDims, random);
  Dims lead;
  for (int axis = static_cast<int>(common::random_up_to(2, random)); axis > 0; --axis)
    lead.push_back(common::random_extent(3, random));
  Dims tokens = lead;
  tokens.push_back(common::one_of(kLengths, random));
  Dims shape = tokens;
  shape.push_back(random() % 20 == 0 ? 0 : std::max<std::int64_t>(common::one_of(kHeads, random), 1));
  shape.push_back(dim);

  Example example{{{dtype, shape}, TensorMeta::left_out(), TensorMeta::left_out(), TensorMeta::left_out()}, {}};
  Attributes& attributes = example.attributes;
  std::int64_t rotary_dim = dim;
  if (random() % 3 == 0) {
    rotary_dim = 2 + 2 * common::random_up_to(dim / 2 - 1, random);
    attributes.set("rotary_dim", rotary_dim);
  }
  if (random() % 2 == 0) attributes.set("interleaved", true);
  if (random() % 4 == 0) attributes.set("inverse", true);
  const bool has_positions = random() % 3 != 0;
  if (has_positions)
    example.inputs[kPositions] = {common::random_index_dtype(random), random_broadcast(tokens, random)};
  if (random() % 2 == 0) {
    set_random_frequencies(attributes, random);
  } else {
    Dims table;
    if (has_positions) {
      table.push_back(random() % 10 == 0 ? 0 : common::random_extent(3000, random));
    } else {
      if (random() % 2 == 0) table = random_broadcast(lead, random);
      table.push_back(tokens.back() + (random() % 3 == 0 ? 5 : 0));
    }
    table.push_back(rotary_dim / 2);
    example.inputs[kCos] = example.inputs[kSin] = {random() % 2 == 0 ? dtype : DType::f32, table};
  }
  while (example.inputs.back().absent) example.inputs.pop_back();
  return example;
}

void spoil_positions(const OpCall& call, std::mt19937_64& random) {
  const TensorView* const positions = call.inputs.find(kPositions);
  if (positions == nullptr || random() % 3 != 0) return;
  const std::int64_t end = rope_problem(call.inputs, call.attributes).num_positions;
  const std::int64_t outside[] = {-1, -2, end, end + 1};
  for (std::int64_t i = 0; i < positions->numel(); ++i) {
    if (random() % 8 != 0) continue;
    std::int64_t rest = i, offset = 0;
    for (int axis = positions->ndim() - 1; axis >= 0; rest /= positions->shape[axis--])
      offset += rest % positions->shape[axis] * positions->strides[axis];
    common::store_at<std::int64_t>(*positions, offset, common::one_of(outside, random));
  }
}

}  // namespace kiln::rope
