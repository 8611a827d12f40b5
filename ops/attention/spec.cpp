#include "ops/attention/spec.hpp"

#include <cstdint>
#include <string>

#include "ops/attention/examples.hpp"
#include "ops/attention/launch.hpp"
#include "ops/attention/merge_spec.hpp"
#include "ops/attention/mla_spec.hpp"
#include "ops/attention/number_types.hpp"
#include "ops/attention/paged_spec.hpp"
#include "ops/attention/problem.hpp"
#include "ops/attention/reference.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/attention/varlen_spec.hpp"
#include "ops/common/traffic.hpp"

namespace kiln::attention {
namespace {

InputSpec mask_spec() {
  InputSpec input{"attn_mask",
                  "broadcasts to [B, H, Sq, Sk]: bool, True where the query sees the key, or added to scores, of q's "
                  "dtype or f32",
                  true};
  input.dtypes = {DType::bool_, DType::f32, DType::f16, DType::bf16};
  return input;
}

Cost cost(const OpCall& call) {
  return {attention_problem(call.inputs, call.attributes).flops(), common::sum_of_tensors(call, common::stored_bytes)};
}

OpSpec attention_spec() {
  OpSpec spec;
  spec.name = kOp;
  spec.doc =
      "softmax(q k^T * scale + ...) v for each head, without the scores in memory; a query that sees no key gives "
      "zeros and lse -inf, keys that it does not see weigh nothing";
  spec.inputs = {{"q", "[B, Sq, H, D], or [B, H, Sq, D] with layout BHSD; D from 1 to 256"},
                 {"k", "[B, Sk, Hk, D]; H is a multiple of Hk, and query head h takes head h / (H / Hk)"},
                 {"v", "[B, Sk, Hk, Dv]"},
                 mask_spec(),
                 slopes_spec("B"),
                 sinks_spec(),
                 head_scale_spec("q_descale", "numbers of q", "[B, Hk]"),
                 head_scale_spec("k_descale", "numbers of k", "[B, Hk]"),
                 head_scale_spec("v_descale", "numbers of v", "[B, Hk]")};
  spec.outputs = {{"out", "as q, with Dv numbers a head"},
                  {"lse", "[B, H, Sq], f32, with return_lse: the natural logarithm of the sum of exp(score)"}};
  spec.attributes = {
      {"causal", std::string("none"), false,
       "\"top_left\": query i sees keys up to i, as torch's is_causal; \"bottom_right\": up to i + Sk - Sq, as "
       "FlashAttention's causal"},
      scale_spec(),
      {"window", std::vector<std::int64_t>{-1, -1}, false,
       "(left, right): keys that a query sees before and behind its own place, i + Sk - Sq, or i with \"top_left\"; "
       "-1: "
       "all"},
      softcap_spec(),
      {"layout", std::string("BSHD"), false, "\"BSHD\": [batch, length, heads, head dim], or \"BHSD\""},
      out_dtype_spec(),
      return_lse_spec()};
  spec.dtypes.assign(std::begin(kQueryTypes), std::end(kQueryTypes));
  spec.infer = infer;
  spec.variants = attention_variants();
  spec.cost = cost;
  spec.reference = attention_reference;
  spec.examples = attention_examples();
  spec.random_example = random_attention_example;
  spec.tolerance = attention_tolerance;
  spec.product_tolerance = score_tolerance;
  // f32 has a score to 1e-6 of it, or where strides of 0 make it a sum of hundreds of equal numbers, whose roundings
  // add up, to 1e-5. So has it weights of scores of some tens: slopes are for distances of hundreds.
  spec.input_ranges = {{-1, 1}, {-1, 1}, {}, {}, {-0.125, 0.125}, {}, {-1, 1}, {-1, 1}, {-1, 1}};
  return spec;
}

}  // namespace

std::vector<OpSpec> attention_specs() {
  return {attention_spec(), merge_spec(), mla_spec(), paged_spec(), varlen_spec()};
}

}  // namespace kiln::attention
