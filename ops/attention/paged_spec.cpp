#include "ops/attention/paged_spec.hpp"

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/number_types.hpp"
#include "ops/attention/paged_call.hpp"
#include "ops/attention/paged_contract.hpp"
#include "ops/attention/paged_examples.hpp"
#include "ops/attention/paged_launch.hpp"
#include "ops/attention/paged_reference.hpp"
#include "ops/attention/reference.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/common/traffic.hpp"

namespace kiln::attention {
namespace {

/// Of requests that are as long as the table allows.
Cost paged_cost(const OpCall& call) {
  const PagedProblem problem = paged_problem(call.inputs, call.attributes);
  const auto tokens = static_cast<double>(problem.is_list ? problem.most_tokens : problem.batch * problem.most_tokens);
  const auto width = static_cast<double>(problem.head_dim + problem.values.width);
  double bytes =
      tokens * static_cast<double>(problem.keys.heads * itemsize_bytes(call.inputs[kKeyCache].dtype)) * width;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (i != kKeyCache && i != kValueCache && call.inputs.find(i) != nullptr)
      bytes += common::stored_bytes(call.inputs[i]);
  for (const TensorView& output : call.outputs) bytes += common::stored_bytes(output);
  return {2 * tokens * static_cast<double>(problem.heads * problem.queries) * width, bytes};
}

InputSpec cache_input(std::string name, std::string doc) {
  InputSpec input{std::move(name), std::move(doc)};
  input.dtypes.assign(std::begin(kQueryTypes), std::end(kQueryTypes));
  return input;
}

InputSpec page_starts_input() {
  InputSpec input{"page_indptr",
                  "[B + 1], of block_table's dtype: block_table[page_indptr[b]] to before block_table[page_indptr[b + "
                  "1]] are request b's pages",
                  true};
  input.dtypes = {DType::i32, DType::i64};
  input.selects = [](const OpCall& call) -> std::vector<SelectionRange> {
    return {{.low = 0, .high = call.inputs[kBlockTable].shape[0], .ascending = true}};
  };
  return input;
}

}  // namespace

OpSpec paged_spec() {
  OpSpec spec;
  spec.name = kPagedOp;
  spec.doc =
      "attention of a request's newest tokens over keys and values in pages: token t of request b lies at place t % "
      "page of block block_table[b, t / page]; a request of length 0 gives zeros and lse -inf";
  spec.inputs = {
      {"q", "[B, Sq, H, D], D from 1 to 256: the last Sq tokens of each request, any strides"},
      cache_input(
          "k_cache",
          "[blocks, page, Hk, D], or [blocks, Hk, page, D] with layout HND, of q's dtype or fp8; H is a multiple "
          "of Hk"),
      cache_input("v_cache", "as k_cache, with Dv numbers a head"),
      paged_index_input(
          "block_table",
          "[B, max_pages], i32 or i64, or with page_indptr the pages of one request after the other; entries behind a "
          "length may be anything, one that is no block is read as the nearest that is",
          [](const OpCall& call) { return paged_problem(call.inputs, call.attributes).keys.num_blocks - 1; }),
      paged_index_input("seq_lens",
                        "[B], i32 or i64: tokens of each request, those of q included; with page_indptr those of its "
                        "last page",
                        [](const OpCall& call) {
                          const PagedProblem problem = paged_problem(call.inputs, call.attributes);
                          return problem.is_list ? problem.keys.page : problem.most_tokens;
                        }),
      slopes_spec("B"),
      sinks_spec(),
      head_scale_spec("k_scale", "numbers of k_cache", "[B, Hk]"),
      head_scale_spec("v_scale", "numbers of v_cache", "[B, Hk]"),
      page_starts_input()};
  spec.outputs = {{"out", "[B, Sq, H, Dv]"},
                  {"lse", "[B, H, Sq], f32, with return_lse: the natural logarithm of the sum of exp(score)"}};
  spec.attributes = {paged_causal_spec(),
                     scale_spec(),
                     window_spec(),
                     softcap_spec(),
                     kv_cache::layout_attribute(),
                     num_splits_spec(),
                     return_lse_spec(),
                     kv_cache::check_bounds_attribute("seq_lens and the entries that they use")};
  spec.dtypes = {DType::f32, DType::f16, DType::bf16};
  for (const int cache : {kKeyCache, kValueCache})
    spec.shape_rule.parts.push_back({.input = cache, .axis = 0, .bucket = ShapeKeyRule::Bucket::any});
  spec.shape_rule.parts.push_back(varying_extent(kPagedQuery, 0));
  spec.shape_rule.parts.push_back(varying_extent(kBlockTable, 0));
  spec.shape_rule.parts.push_back(varying_extent(kBlockTable, 1));
  spec.shape_rule.parts.push_back(varying_extent(kLengths, 0));
  spec.infer = infer_paged;
  spec.variants = paged_variants();
  spec.cost = paged_cost;
  spec.reference = paged_reference;
  spec.examples = paged_examples();
  spec.random_example = random_paged_example;
  spec.tolerance = attention_tolerance;
  spec.input_ranges = {{-1, 1}, {-1, 1}, {}, {}, {}, {-0.125, 0.125}, {}, {-1, 1}, {-1, 1}};
  spec.spoil_inputs = spoil_paged;
  spec.skipped_work = skipped_by_paged;
  return spec;
}

}  // namespace kiln::attention
