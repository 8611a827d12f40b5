#include "ops/attention/mla_spec.hpp"

#include <cstdint>

#include "ops/attention/mla_call.hpp"
#include "ops/attention/mla_examples.hpp"
#include "ops/attention/mla_launch.hpp"
#include "ops/attention/mla_reference.hpp"
#include "ops/attention/paged_contract.hpp"
#include "ops/attention/reference.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/common/traffic.hpp"

namespace kiln::attention {
namespace {

/// Of requests that are as long as the table allows.
Cost mla_cost(const OpCall& call) {
  const MlaProblem problem = mla_problem(call.inputs, call.attributes);
  const auto tokens = static_cast<double>(problem.batch * problem.most_tokens);
  const auto width = static_cast<double>(problem.latent + problem.rotary);
  double bytes = tokens * width * static_cast<double>(itemsize_bytes(problem.cache.dtype));
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (i != kLatentCache) bytes += common::stored_bytes(call.inputs[i]);
  for (const TensorView& output : call.outputs) bytes += common::stored_bytes(output);
  return {2 * tokens * static_cast<double>(problem.rows()) * (width + static_cast<double>(problem.latent)), bytes};
}

}  // namespace

OpSpec mla_spec() {
  OpSpec spec;
  spec.name = kMlaOp;
  spec.doc =
      "attention of a request's newest tokens over latent vectors in pages, DeepSeek's MLA with its weights absorbed: "
      "a "
      "token of the cache is a latent vector c, which is key and value of all heads, and its rotary part k; softmax of "
      "(q_nope c + q_pe k) * scale, times c; a request of length 0 gives zeros and lse -inf";
  spec.inputs = {
      {"q_nope", "[B, Sq, H, latent], latent from 1 to 512: the last Sq tokens of each request, any strides"},
      {"q_pe", "[B, Sq, H, rotary], rotary from 1 to 64"},
      {"cache", "[blocks, page, latent + rotary], or with one head, [blocks, page, 1, latent + rotary]"},
      paged_index_input("block_table",
                        "[B, max_pages], i32 or i64: token t of request b lies at place t % page of block "
                        "block_table[b, t / page]; entries behind a length may be anything, one that is no block is "
                        "read as the nearest that is",
                        [](const OpCall& call) { return mla_problem(call.inputs, call.attributes).num_blocks - 1; }),
      paged_index_input("seq_lens", "[B], i32 or i64: tokens of each request, those of the queries included",
                        [](const OpCall& call) { return mla_problem(call.inputs, call.attributes).most_tokens; })};
  spec.outputs = {{"out", "[B, Sq, H, latent]"},
                  {"lse", "[B, H, Sq], f32, with return_lse: the natural logarithm of the sum of exp(score)"}};
  spec.attributes = {
      {"scale", 0.0, true,
       "of products: 1 / sqrt(size of a head of keys before weights were absorbed), DeepSeek's (128 + 64) ** -0.5; "
       "shapes do not tell it",
       /*decides_speed=*/false},
      paged_causal_spec(),
      num_splits_spec(),
      return_lse_spec(),
      kv_cache::check_bounds_attribute("seq_lens and the entries that they use")};
  spec.dtypes = {DType::f32, DType::f16, DType::bf16};
  spec.shape_rule.parts.push_back({.input = kLatentCache, .axis = 0, .bucket = ShapeKeyRule::Bucket::any});
  for (const int input : {kLatentQuery, kRotaryQuery, kMlaTable, kMlaLengths})
    spec.shape_rule.parts.push_back(varying_extent(input, 0));
  spec.shape_rule.parts.push_back(varying_extent(kMlaTable, 1));
  spec.infer = infer_mla;
  spec.variants = mla_variants();
  spec.cost = mla_cost;
  spec.reference = mla_reference;
  spec.examples = mla_examples();
  spec.random_example = random_mla_example;
  spec.tolerance = attention_tolerance;
  spec.input_ranges = {{-1, 1}, {-1, 1}, {-1, 1}};
  spec.spoil_inputs = spoil_mla;
  spec.skipped_work = skipped_by_mla;
  return spec;
}

}  // namespace kiln::attention
