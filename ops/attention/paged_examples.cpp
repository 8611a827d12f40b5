#include "ops/attention/paged_examples.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "ops/attention/paged_call.hpp"
#include "ops/common/random_shape.hpp"

namespace kiln::attention {
namespace {

/// A call's shapes; a cache is [blocks, page, key_heads, dim].
struct PagedShapes {
  DType dtype = DType::bf16, index = DType::i32, cache_dtype = dtype;
  std::int64_t batch = 1, queries = 1, key_heads = 1, group = 1, dim = 64, value_dim = 64;
  std::int64_t blocks = 1, page = 16, max_pages = 1;
  bool heads_first = false;
  std::int64_t listed_pages = -1;  ///< of all requests, in a list in place of a table
  bool has_scales = false;

  Example example(Attributes attributes) const {
    const auto cache = [&](std::int64_t width) {
      return heads_first ? Dims{blocks, key_heads, page, width} : Dims{blocks, page, key_heads, width};
    };
    attributes.set("layout", std::string(heads_first ? "HND" : "NHD"));
    const bool is_list = listed_pages >= 0;
    std::vector<TensorMeta> inputs = {{dtype, {batch, queries, key_heads * group, dim}},
                                      {cache_dtype, cache(dim)},
                                      {cache_dtype, cache(value_dim)},
                                      {index, is_list ? Dims{listed_pages} : Dims{batch, max_pages}},
                                      {index, {batch}}};
    if (is_list || has_scales) inputs.resize(kPagedKeyScale, TensorMeta::left_out());
    if (is_list || has_scales)
      inputs.insert(inputs.end(), {{DType::f32, {key_heads}, !has_scales}, {DType::f32, {batch, 1}, !has_scales}});
    if (is_list) inputs.push_back({index, {batch + 1}});
    return {std::move(inputs), std::move(attributes)};
  }
};

}  // namespace

std::vector<Example> paged_examples() {
  const Attributes with_lse = {{"return_lse", true}};
  std::vector<Example> examples = {
      PagedShapes{.batch = 4, .key_heads = 2, .group = 8, .dim = 128, .value_dim = 128, .blocks = 40, .max_pages = 20}
          .example({}),
      PagedShapes{.dtype = DType::f32,
                  .batch = 3,
                  .queries = 4,
                  .key_heads = 2,
                  .group = 3,
                  .blocks = 9,
                  .page = 64,
                  .max_pages = 3}
          .example(with_lse),
      PagedShapes{.dtype = DType::f16,
                  .index = DType::i64,
                  .batch = 2,
                  .queries = 1,
                  .key_heads = 3,
                  .group = 7,
                  .dim = 80,
                  .value_dim = 64,
                  .blocks = 90,
                  .page = 5,
                  .max_pages = 60,
                  .heads_first = true}
          .example({{"num_splits", std::int64_t{4}}, {"return_lse", true}}),
      PagedShapes{.batch = 2, .queries = 16, .key_heads = 1, .group = 16, .blocks = 5, .page = 128, .max_pages = 3}
          .example({{"window", std::vector<std::int64_t>{40, 0}}, {"check_bounds", true}}),
      PagedShapes{.dtype = DType::f32, .batch = 2, .blocks = 300, .page = 1, .max_pages = 200}.example(with_lse),
      PagedShapes{.dtype = DType::f32, .batch = 2, .blocks = 0, .max_pages = 2}.example(with_lse),
      PagedShapes{.dtype = DType::f32, .batch = 0, .blocks = 3, .max_pages = 2}.example({}),
      PagedShapes{.cache_dtype = DType::fp8e4m3,
                  .batch = 3,
                  .key_heads = 2,
                  .group = 4,
                  .dim = 128,
                  .value_dim = 128,
                  .blocks = 30,
                  .max_pages = 10,
                  .has_scales = true}
          .example(with_lse),
      PagedShapes{.dtype = DType::f16,
                  .batch = 4,
                  .key_heads = 2,
                  .group = 3,
                  .dim = 80,
                  .value_dim = 80,
                  .blocks = 20,
                  .page = 8,
                  .listed_pages = 35}
          .example({{"num_splits", std::int64_t{2}}}),
  };
  Example biased = PagedShapes{.batch = 3,
                               .queries = 2,
                               .key_heads = 2,
                               .group = 4,
                               .dim = 192,
                               .value_dim = 128,
                               .blocks = 30,
                               .page = 16,
                               .max_pages = 12}
                       .example({{"softcap", 20.0}, {"num_splits", std::int64_t{3}}});
  biased.inputs.push_back({DType::f32, {8}});
  biased.inputs.push_back({DType::f32, {8}});
  examples.push_back(biased);
  return examples;
}

Example random_paged_example(std::mt19937_64& random) {
  using common::one_of;
  constexpr DType kTypes[] = {DType::bf16, DType::f32, DType::f16};
  constexpr std::int64_t kQueries[] = {1, 1, 1, 2, 4, 16, 37}, kGroups[] = {1, 1, 3, 7, 8, 16},
                         kWidths[] = {1, 8, 40, 64, 64, 80, 128, 128, 256},
                         kPages[] = {1, 2, 5, 8, 16, 16, 16, 32, 48, 64, 128, 256};
  PagedShapes shapes;
  shapes.dtype = one_of(kTypes, random);
  shapes.index = common::random_index_dtype(random);
  shapes.batch = common::random_up_to(3, random);
  shapes.queries = random() % 40 == 0 ? 0 : one_of(kQueries, random);
  shapes.key_heads = 1 + common::random_up_to(1, random);
  shapes.group = one_of(kGroups, random);
  shapes.dim = one_of(kWidths, random);
  shapes.value_dim = random() % 3 == 0 ? one_of(kWidths, random) : shapes.dim;
  shapes.page = one_of(kPages, random);
  shapes.blocks = random() % 30 == 0 ? 0 : 1 + common::random_up_to(20, random);
  shapes.max_pages = common::random_up_to(std::max<std::int64_t>(200 / shapes.page, 2), random);
  shapes.heads_first = random() % 2 == 0;
  shapes.cache_dtype = random() % 3 != 0 ? shapes.dtype : random() % 2 == 0 ? DType::fp8e4m3 : DType::fp8e5m2;
  shapes.has_scales = random() % 4 == 0;
  if (random() % 4 == 0) shapes.listed_pages = shapes.max_pages * shapes.batch;

  Attributes attributes;
  if (random() % 3 == 0) attributes.set("causal", std::string("none"));
  if (random() % 3 == 0)
    attributes.set("window", std::vector<std::int64_t>{common::random_up_to(100, random) - 1,
                                                       common::random_up_to(100, random) - 1});
  if (random() % 4 == 0) attributes.set("scale", random() % 2 == 0 ? -0.25 : 0.5);
  if (random() % 4 == 0) attributes.set("softcap", 5.0);
  if (random() % 2 == 0) attributes.set("return_lse", true);
  if (random() % 2 == 0) attributes.set("num_splits", 1 + common::random_up_to(6, random));
  if (random() % 4 == 0 && shapes.blocks > 0 && shapes.listed_pages < 0) attributes.set("check_bounds", true);
  Example example = shapes.example(attributes);
  const std::int64_t heads = shapes.key_heads * shapes.group;
  const bool has_slopes = random() % 3 == 0, has_sinks = random() % 3 == 0;
  const auto put = [&](std::size_t input, const TensorMeta& meta) {
    if (example.inputs.size() <= input) example.inputs.resize(input + 1, TensorMeta::left_out());
    example.inputs[input] = meta;
  };
  if (has_slopes) put(kPagedSlopes, {DType::f32, random() % 2 == 0 ? Dims{heads} : Dims{shapes.batch, heads}});
  if (has_sinks) put(kPagedSinks, {random() % 2 == 0 ? shapes.dtype : DType::f32, {heads}});
  return example;
}

void spoil_paged(const OpCall& call, std::mt19937_64& random) {
  const PagedProblem problem = paged_problem(call.inputs, call.attributes);
  spoil_table(problem.table(call.inputs), problem.checks_bounds, random);
}

SkippedWork skipped_by_paged(const OpCall& call) {
  return skipped_tokens(paged_problem(call.inputs, call.attributes).table(call.inputs));
}

}  // namespace kiln::attention
