#include "ops/attention/varlen_spec.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/reference.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/attention/varlen_call.hpp"
#include "ops/attention/varlen_launch.hpp"
#include "ops/attention/varlen_reference.hpp"
#include "ops/common/random_shape.hpp"
#include "ops/common/traffic.hpp"

namespace kiln::attention {
namespace {

InputSpec starts_input(std::string name, std::string doc, std::function<std::int64_t(const VarlenProblem&)> rows) {
  InputSpec input{std::move(name), std::move(doc)};
  input.dtypes = {DType::i32, DType::i64};
  input.selects = [rows = std::move(rows)](const OpCall& call) -> std::vector<SelectionRange> {
    return {{.low = 0, .high = rows(varlen_problem(call.inputs, call.attributes)), .ascending = true}};
  };
  return input;
}

/// Pairs of a query and a key that sequences of the greatest lengths make.
std::int64_t most_pairs(const VarlenProblem& problem) {
  return std::min(problem.sequences * problem.max_queries, problem.queries) * problem.max_keys;
}

Cost varlen_cost(const OpCall& call) {
  const VarlenProblem problem = varlen_problem(call.inputs, call.attributes);
  const auto width = static_cast<double>(problem.head_dim + problem.value_dim);
  return {2 * width * static_cast<double>(problem.heads) * static_cast<double>(most_pairs(problem)),
          common::sum_of_tensors(call, common::stored_bytes)};
}

SkippedWork skipped_by_varlen(const OpCall& call) {
  const VarlenProblem problem = varlen_problem(call.inputs, call.attributes);
  const std::int64_t total = most_pairs(problem);
  std::int64_t pairs = 0;
  for (std::int64_t number = 0; number < problem.sequences; ++number) {
    const auto length = [&](VarlenInput starts, std::int64_t rows, std::int64_t most) {
      return std::clamp<std::int64_t>(
          sequence_start(call.inputs[starts], number + 1, rows) - sequence_start(call.inputs[starts], number, rows), 0,
          most);
    };
    pairs +=
        length(kQueryStarts, problem.queries, problem.max_queries) * length(kKeyStarts, problem.keys, problem.max_keys);
  }
  return {total - std::min(pairs, total), total, "pairs of a query and a key in sequences of the greatest lengths"};
}

/// q, k, v and where `sequences` of them begin.
Example packed_example(DType dtype, const Dims& q, std::int64_t keys, std::int64_t key_heads, std::int64_t value_dim,
                       std::int64_t sequences, Attributes attributes) {
  attributes.set("max_seqlen_q", q[0]);
  attributes.set("max_seqlen_k", keys);
  return {{{dtype, q},
           {dtype, {keys, key_heads, q[2]}},
           {dtype, {keys, key_heads, value_dim}},
           {DType::i32, {sequences + 1}},
           {DType::i32, {sequences + 1}}},
          std::move(attributes)};
}

std::vector<Example> varlen_examples() {
  const std::string bottom_right = "bottom_right", top_left = "top_left";
  std::vector<Example> examples = {
      packed_example(DType::bf16, {600, 4, 64}, 600, 4, 64, 4, {{"causal", bottom_right}}),
      packed_example(DType::f32, {150, 6, 80}, 220, 2, 64, 3, {{"return_lse", true}}),
      packed_example(DType::f16, {300, 4, 128}, 200, 1, 128, 5, {{"causal", top_left}, {"softcap", 20.0}}),
      packed_example(DType::f32, {0, 2, 32}, 5, 1, 32, 1, {}),
      packed_example(DType::f32, {7, 2, 32}, 0, 1, 32, 2, {{"return_lse", true}}),
      packed_example(DType::f32, {7, 2, 32}, 9, 1, 32, 0, {{"return_lse", true}}),
  };
  Example biased = packed_example(DType::bf16, {130, 8, 96}, 140, 2, 96, 3,
                                  {{"window", std::vector<std::int64_t>{30, 5}}, {"return_lse", true}});
  biased.inputs.push_back({DType::f32, {3, 8}});
  biased.inputs.push_back({DType::f32, {8}});
  examples.push_back(biased);
  return examples;
}

Example random_varlen_example(std::mt19937_64& random) {
  using common::one_of;
  constexpr DType kTypes[] = {DType::bf16, DType::f32, DType::f16};
  constexpr std::int64_t kRows[] = {0, 1, 3, 16, 65, 113, 203, 300}, kWidths[] = {1, 8, 40, 64, 80, 128, 192, 256},
                         kGroups[] = {1, 1, 2, 3, 7, 8};
  const DType dtype = one_of(kTypes, random), index = common::random_index_dtype(random);
  const std::int64_t queries = one_of(kRows, random), keys = random() % 2 == 0 ? queries : one_of(kRows, random);
  const std::int64_t key_heads = 1 + common::random_up_to(1, random), heads = key_heads * one_of(kGroups, random);
  const std::int64_t width = one_of(kWidths, random), sequences = common::random_up_to(5, random);
  Example example = packed_example(dtype, {queries, heads, width}, keys, key_heads,
                                   random() % 2 == 0 ? width : one_of(kWidths, random), sequences, {});
  example.inputs[kQueryStarts].dtype = example.inputs[kKeyStarts].dtype = index;
  Attributes& attributes = example.attributes;
  if (random() % 4 == 0) attributes.set("max_seqlen_q", common::random_up_to(queries, random));
  const std::string causal[] = {"none", "top_left", "bottom_right"};
  attributes.set("causal", one_of(causal, random));
  if (random() % 3 == 0)
    attributes.set("window", std::vector<std::int64_t>{common::random_up_to(100, random) - 1,
                                                       common::random_up_to(100, random) - 1});
  if (random() % 4 == 0) attributes.set("scale", random() % 2 == 0 ? -0.25 : 0.5);
  if (random() % 4 == 0) attributes.set("softcap", 5.0);
  if (random() % 2 == 0) attributes.set("return_lse", true);
  const bool has_slopes = random() % 3 == 0, has_sinks = random() % 3 == 0;
  if (has_slopes || has_sinks)
    example.inputs.push_back({DType::f32, random() % 2 == 0 ? Dims{heads} : Dims{sequences, heads}, !has_slopes});
  if (has_sinks) example.inputs.push_back({random() % 2 == 0 ? dtype : DType::f32, {heads}});
  return example;
}

}  // namespace

OpSpec varlen_spec() {
  OpSpec spec;
  spec.name = kVarlenOp;
  spec.doc =
      "attention of sequences that lie one after the other: queries cu_seqlens_q[b] to cu_seqlens_q[b + 1] see keys "
      "cu_seqlens_k[b] to cu_seqlens_k[b + 1]; rows of q that are no sequence's give zeros and lse -inf";
  spec.inputs = {
      {"q", "[Tq, H, D], D from 1 to 256, any strides"},
      {"k", "[Tk, Hk, D]; H is a multiple of Hk, and query head h takes head h / (H / Hk)"},
      {"v", "[Tk, Hk, Dv]"},
      starts_input("cu_seqlens_q", "[B + 1], i32 or i64: where sequences begin in q, and where the last ends",
                   [](const VarlenProblem& problem) { return problem.queries; }),
      starts_input("cu_seqlens_k", "the same in k and v, of cu_seqlens_q's dtype",
                   [](const VarlenProblem& problem) { return problem.keys; }),
      slopes_spec("B"),
      sinks_spec()};
  spec.outputs = {{"out", "[Tq, H, Dv]"},
                  {"lse", "[H, Tq], f32, with return_lse: the natural logarithm of the sum of exp(score)"}};
  spec.attributes = {
      {"max_seqlen_q", std::int64_t{0}, true,
       "queries of the longest sequence; queries behind so many are taken for no sequence's",
       /*decides_speed=*/false},
      {"max_seqlen_k", std::int64_t{0}, true, "keys of the longest sequence, for the choice of tiles",
       /*decides_speed=*/false},
      {"causal", std::string("none"), false, "as attention's, in each sequence: \"top_left\" or \"bottom_right\""},
      scale_spec(),
      window_spec(),
      softcap_spec(),
      return_lse_spec()};
  spec.dtypes = {DType::f32, DType::f16, DType::bf16};
  const auto varying = [](int input) {
    return ShapeKeyRule::Part{
        .input = input, .axis = 0, .bucket = ShapeKeyRule::Bucket::power_of_two, .exact_up_to = 16};
  };
  for (const int input : {kPackedQuery, kPackedKey, kPackedValue, kQueryStarts, kKeyStarts})
    spec.shape_rule.parts.push_back(varying(input));
  spec.infer = infer_varlen;
  spec.variants = varlen_variants();
  spec.cost = varlen_cost;
  spec.reference = varlen_reference;
  spec.examples = varlen_examples();
  spec.random_example = random_varlen_example;
  spec.tolerance = attention_tolerance;
  spec.input_ranges = {{-1, 1}, {-1, 1}, {}, {}, {}, {-0.125, 0.125}};
  spec.skipped_work = skipped_by_varlen;
  return spec;
}

}  // namespace kiln::attention
