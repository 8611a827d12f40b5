#include "ops/attention/mla_examples.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "ops/attention/mla_call.hpp"
#include "ops/common/random_shape.hpp"

namespace kiln::attention {
namespace {

/// A call's shapes; the cache is [blocks, page, latent + rotary], or with one head.
struct MlaShapes {
  DType dtype = DType::bf16, index = DType::i32;
  std::int64_t batch = 1, queries = 1, heads = 16, latent = 512, rotary = 64;
  std::int64_t blocks = 1, page = 64, max_pages = 1;
  bool has_head = false;

  Example example(Attributes attributes) const {
    if (attributes.find("scale") == nullptr) attributes.set("scale", 0.0625);
    const std::int64_t width = latent + rotary;
    return {{{dtype, {batch, queries, heads, latent}},
             {dtype, {batch, queries, heads, rotary}},
             {dtype, has_head ? Dims{blocks, page, 1, width} : Dims{blocks, page, width}},
             {index, {batch, max_pages}},
             {index, {batch}}},
            std::move(attributes)};
  }
};

}  // namespace

std::vector<Example> mla_examples() {
  const Attributes with_lse = {{"return_lse", true}};
  return {
      MlaShapes{.batch = 3, .blocks = 9, .max_pages = 4, .has_head = true}.example({}),
      MlaShapes{.batch = 2, .heads = 128, .blocks = 7, .max_pages = 5}.example({{"num_splits", std::int64_t{2}}}),
      MlaShapes{.dtype = DType::f32, .batch = 2, .queries = 3, .heads = 5, .blocks = 20, .page = 16, .max_pages = 8}
          .example(with_lse),
      MlaShapes{.dtype = DType::f16,
                .index = DType::i64,
                .batch = 2,
                .queries = 2,
                .heads = 40,
                .latent = 256,
                .rotary = 32,
                .blocks = 90,
                .page = 5,
                .max_pages = 30}
          .example({{"num_splits", std::int64_t{3}}, {"return_lse", true}, {"check_bounds", true}}),
      MlaShapes{.batch = 2, .heads = 1, .latent = 80, .rotary = 24, .blocks = 100, .page = 1, .max_pages = 60}.example(
          {{"causal", std::string("none")}, {"scale", -0.25}}),
      MlaShapes{.dtype = DType::f32, .batch = 2, .latent = 64, .blocks = 0, .max_pages = 2}.example(with_lse),
      MlaShapes{.batch = 0, .blocks = 3, .max_pages = 2}.example({}),
  };
}

Example random_mla_example(std::mt19937_64& random) {
  using common::one_of;
  constexpr DType kTypes[] = {DType::bf16, DType::f32, DType::f16};
  constexpr std::int64_t kQueries[] = {1, 1, 1, 2, 3, 7}, kHeads[] = {1, 5, 8, 16, 16, 40, 64, 128},
                         kLatents[] = {512, 512, 256, 128, 80, 16, 1}, kRotaries[] = {64, 64, 32, 24, 1},
                         kPages[] = {1, 2, 5, 16, 16, 32, 48, 64, 64, 128};
  MlaShapes shapes;
  shapes.dtype = one_of(kTypes, random);
  shapes.index = common::random_index_dtype(random);
  shapes.batch = common::random_up_to(3, random);
  shapes.queries = random() % 40 == 0 ? 0 : one_of(kQueries, random);
  shapes.heads = one_of(kHeads, random);
  shapes.latent = one_of(kLatents, random);
  shapes.rotary = one_of(kRotaries, random);
  shapes.page = one_of(kPages, random);
  shapes.blocks = random() % 30 == 0 ? 0 : 1 + common::random_up_to(20, random);
  shapes.max_pages = common::random_up_to(std::max<std::int64_t>(200 / shapes.page, 2), random);
  shapes.has_head = random() % 2 == 0;

  Attributes attributes;
  attributes.set("scale", random() % 6 == 0 ? -0.0625 : random() % 3 == 0 ? 0.125 : 0.0625);
  if (random() % 3 == 0) attributes.set("causal", std::string("none"));
  if (random() % 2 == 0) attributes.set("return_lse", true);
  if (random() % 2 == 0) attributes.set("num_splits", 1 + common::random_up_to(6, random));
  if (random() % 4 == 0 && shapes.blocks > 0) attributes.set("check_bounds", true);
  return shapes.example(attributes);
}

void spoil_mla(const OpCall& call, std::mt19937_64& random) {
  const MlaProblem problem = mla_problem(call.inputs, call.attributes);
  spoil_table(problem.table(call.inputs), problem.checks_bounds, random);
}

SkippedWork skipped_by_mla(const OpCall& call) {
  return skipped_tokens(mla_problem(call.inputs, call.attributes).table(call.inputs));
}

}  // namespace kiln::attention
