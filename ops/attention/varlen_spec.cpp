#include "ops/attention/varlen_spec.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/number_types.hpp"
#include "ops/attention/paged_contract.hpp"
#include "ops/attention/paged_table.hpp"
#include "ops/attention/reference.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/attention/varlen_launch.hpp"
#include "ops/attention/varlen_problem.hpp"
#include "ops/attention/varlen_reference.hpp"
#include "ops/common/element.hpp"
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

InputSpec optional_starts(InputSpec input) {
  input.optional = true;
  return input;
}

/// Keys, as many as a sequence may have, and pages.
InputSpec used_keys_input() {
  InputSpec input = paged_index_input(
      "seqused_k", "[B], of cu_seqlens_q's dtype: keys of each sequence, of those that cu_seqlens_k gives it the first",
      [](const OpCall& call) { return varlen_problem(call.inputs, call.attributes).keys; });
  input.optional = true;
  return input;
}

InputSpec table_input() {
  InputSpec input = paged_index_input(
      "block_table",
      "[B, max_pages], of cu_seqlens_q's dtype: k and v are pages; key t of sequence b lies at place t % page of block "
      "block_table[b, t / page]",
      [](const OpCall& call) { return varlen_problem(call.inputs, call.attributes).num_blocks - 1; });
  input.optional = true;
  return input;
}

/// Pairs of a query and a key that sequences of the greatest lengths make.
std::int64_t most_pairs(const VarlenProblem& problem) {
  return std::min(problem.sequences * problem.max_queries, problem.queries) * problem.max_keys;
}

Cost varlen_cost(const OpCall& call) {
  const VarlenProblem problem = varlen_problem(call.inputs, call.attributes);
  const auto width = static_cast<double>(problem.head_dim + problem.value_dim);
  double bytes = common::sum_of_tensors(call, common::stored_bytes);
  if (problem.in_pages()) {
    bytes += static_cast<double>(problem.sequences * problem.max_keys * problem.key_heads *
                                 itemsize_bytes(call.inputs[kPackedKey].dtype)) *
             width;
    for (const int cache : {kPackedKey, kPackedValue}) bytes -= common::stored_bytes(call.inputs[cache]);
  }
  return {2 * width * static_cast<double>(problem.heads) * static_cast<double>(most_pairs(problem)), bytes};
}

/// Of a sequence's keys those in pages that there are.
std::int64_t keys_that_are_there(const CallInputs& inputs, const VarlenProblem& problem, std::int64_t number) {
  const RowRange rows = sequence_keys(inputs, problem, number);
  std::int64_t keys = rows.end - rows.begin;
  if (!problem.in_pages()) return keys;
  const TensorView& table = inputs[kVarlenTable];
  const std::int64_t all = keys;
  for (std::int64_t entry = 0; entry * problem.page < all; ++entry) {
    const auto block = common::load_at<std::int64_t>(table, number * table.strides[0] + entry * table.strides[1]);
    if (block < 0 || block >= problem.num_blocks) keys -= std::min(problem.page, all - entry * problem.page);
  }
  return keys;
}

SkippedWork skipped_by_varlen(const OpCall& call) {
  const VarlenProblem problem = varlen_problem(call.inputs, call.attributes);
  const std::int64_t total = most_pairs(problem);
  std::int64_t pairs = 0;
  for (std::int64_t number = 0; number < problem.sequences; ++number) {
    const RowRange queries = sequence_queries(call.inputs, problem, number);
    pairs += std::clamp<std::int64_t>(queries.end - queries.begin, 0, problem.max_queries) *
             std::clamp<std::int64_t>(keys_that_are_there(call.inputs, problem, number), 0, problem.max_keys);
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

struct Pages {
  std::int64_t page, blocks, max_pages;
  bool has_starts = false;  ///< lengths are cu_seqlens_k's and seqused_k's, not the latter's alone
};

/// A packed example with its keys and values in pages.
Example in_pages(Example example, const Pages& pages) {
  for (const int cache : {kPackedKey, kPackedValue}) {
    Dims& shape = example.inputs[cache].shape;
    shape = {pages.blocks, pages.page, shape[1], shape[2]};
  }
  const TensorMeta starts = example.inputs[kQueryStarts];
  const std::int64_t sequences = starts.shape[0] - 1;
  while (example.inputs.size() <= kVarlenTable) example.inputs.push_back(TensorMeta::left_out());
  if (!pages.has_starts) example.inputs[kKeyStarts] = TensorMeta::left_out();
  example.inputs[kUsedKeys] = {starts.dtype, {sequences}};
  example.inputs[kVarlenTable] = {starts.dtype, {sequences, pages.max_pages}};
  example.attributes.set("max_seqlen_k", pages.page * pages.max_pages);
  return example;
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
  examples.push_back(in_pages(packed_example(DType::bf16, {130, 8, 128}, 0, 2, 128, 3, {{"causal", bottom_right}}),
                              {.page = 16, .blocks = 40, .max_pages = 9}));
  examples.push_back(in_pages(packed_example(DType::f32, {50, 4, 80}, 0, 1, 64, 4, {{"return_lse", true}}),
                              {.page = 5, .blocks = 20, .max_pages = 11, .has_starts = true}));
  Example narrow = packed_example(DType::fp8e4m3, {90, 4, 64}, 120, 2, 64, 3, {{"causal", bottom_right}});
  for (int i = 0; i < 4; ++i) narrow.inputs.push_back(TensorMeta::left_out());
  for (int i = 0; i < 3; ++i) narrow.inputs.push_back({DType::f32, {3, 2}});
  examples.push_back(narrow);
  return examples;
}

Example random_varlen_example(std::mt19937_64& random) {
  using common::one_of;
  constexpr DType kTypes[] = {DType::bf16, DType::f32, DType::f16, DType::f32, DType::fp8e4m3, DType::fp8e5m2};
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
  if (has_sinks) example.inputs.push_back({random() % 2 == 0 && !is_fp8(dtype) ? dtype : DType::f32, {heads}});
  if (random() % 4 == 0)
    example.inputs[kPackedKey].dtype = example.inputs[kPackedValue].dtype =
        random() % 2 == 0 ? DType::fp8e4m3 : DType::fp8e5m2;
  const auto add = [&](int input, const TensorMeta& meta) {
    while (example.inputs.size() <= static_cast<std::size_t>(input)) example.inputs.push_back(TensorMeta::left_out());
    example.inputs[input] = meta;
  };
  if (random() % 3 == 0) {
    constexpr std::int64_t kPages[] = {1, 5, 16, 64, 128};
    const std::int64_t page = one_of(kPages, random);
    example = in_pages(std::move(example), {.page = page,
                                            .blocks = random() % 20 == 0 ? 0 : 1 + common::random_up_to(20, random),
                                            .max_pages = common::random_up_to(300 / page, random),
                                            .has_starts = random() % 3 == 0});
  } else if (random() % 3 == 0) {
    add(kUsedKeys, {index, {sequences}});
  }
  if (random() % 3 == 0) add(kVarlenKeyScale, {DType::f32, {sequences, key_heads}});
  if (random() % 3 == 0) add(kVarlenValueScale, {DType::f32, random() % 2 == 0 ? Dims{key_heads} : Dims{}});
  return example;
}

/// Garbage in entries that no sequence uses, and lengths beyond what the table has room for.
void spoil_varlen(const OpCall& call, std::mt19937_64& random) {
  const VarlenProblem problem = varlen_problem(call.inputs, call.attributes);
  if (!problem.in_pages() || call.inputs.find(kKeyStarts) != nullptr) return;
  spoil_table({call.inputs[kVarlenTable], call.inputs[kUsedKeys], problem.sequences, problem.page, problem.num_blocks,
               problem.keys},
              /*checks_bounds=*/false, random);
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
      {"k",
       "[Tk, Hk, D], or with block_table [blocks, page, Hk, D]; H is a multiple of Hk, and query head h takes head h / "
       "(H / Hk)"},
      {"v", "[Tk, Hk, Dv], or [blocks, page, Hk, Dv]"},
      starts_input("cu_seqlens_q", "[B + 1], i32 or i64: where sequences begin in q, and where the last ends",
                   [](const VarlenProblem& problem) { return problem.queries; }),
      optional_starts(
          starts_input("cu_seqlens_k",
                       "the same in k and v, of cu_seqlens_q's dtype; with block_table their differences are lengths, "
                       "and it may be left out where seqused_k has these",
                       [](const VarlenProblem& problem) { return problem.keys; })),
      slopes_spec("B"),
      sinks_spec(),
      used_keys_input(),
      table_input(),
      head_scale_spec("q_descale", "numbers of q", "[B, Hk]"),
      head_scale_spec("k_descale", "numbers of k", "[B, Hk]"),
      head_scale_spec("v_descale", "numbers of v", "[B, Hk]")};
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
      out_dtype_spec(),
      return_lse_spec()};
  spec.dtypes.assign(std::begin(kQueryTypes), std::end(kQueryTypes));
  const auto varying = [](int input) {
    return ShapeKeyRule::Part{
        .input = input, .axis = 0, .bucket = ShapeKeyRule::Bucket::power_of_two, .exact_up_to = 16};
  };
  for (const int input : {kPackedQuery, kPackedKey, kPackedValue, kQueryStarts, kKeyStarts, kUsedKeys, kVarlenTable})
    spec.shape_rule.parts.push_back(varying(input));
  spec.shape_rule.parts.push_back(varying_extent(kVarlenTable, 1));
  spec.infer = infer_varlen;
  spec.variants = varlen_variants();
  spec.cost = varlen_cost;
  spec.reference = varlen_reference;
  spec.examples = varlen_examples();
  spec.random_example = random_varlen_example;
  spec.tolerance = attention_tolerance;
  spec.product_tolerance = score_tolerance;
  spec.input_ranges = {{-1, 1}, {-1, 1}, {}, {}, {}, {-0.125, 0.125}, {}, {}, {}, {-1, 1}, {-1, 1}, {-1, 1}};
  spec.spoil_inputs = spoil_varlen;
  spec.skipped_work = skipped_by_varlen;
  return spec;
}

}  // namespace kiln::attention
