#include "ops/kv_cache/gather_spec.hpp"

#include <string>
#include <utility>
#include <vector>

#include "ops/kv_cache/gather_examples.hpp"
#include "ops/kv_cache/paged_call.hpp"
#include "ops/kv_cache/rows_call.hpp"
#include "ops/kv_cache/rows_launch.hpp"
#include "ops/kv_cache/rows_reference.hpp"

namespace kiln::kv_cache {
namespace {

Cost rows_cost(const RowsCall& rows) {
  const auto pairs = static_cast<double>(rows.iteration.pairs);
  const double per_pair =
      2 * static_cast<double>(rows.iteration.row_bytes) + 2 * static_cast<double>(itemsize_bytes(rows.index));
  return {0, pairs * per_pair};
}

/// The two ops differ in the side that may lie in host memory.
OpSpec rows_spec(const std::string& op, std::string doc, RowsInput pinned) {
  const std::vector<DType> integers = {DType::i32, DType::i64};
  const RowsParser parse([op](const OpCall& call) { return rows_call(op, call); });
  OpSpec spec;
  spec.name = op;
  spec.doc = std::move(doc);
  spec.inputs = {
      {.name = "dst", .doc = "rows along dimension 0, each dense; any stride between them", .mutated = true},
      {.name = "src", .doc = "rows of the same dtype and shape as those of dst"},
      {.name = "indices",
       .doc = "[requests, topk, 2]: pairs (src row, dst row), one of them negative to skip the pair; dst rows distinct",
       .dtypes = integers,
       .selects = [parse](const OpCall& call) -> std::vector<SelectionRange> {
         const RowsCall& rows = parse(call);
         return {{.low = 0, .high = rows.iteration.src_rows - 1, .distinct = rows.has_slot_map},
                 {.low = 0, .high = rows.iteration.dst_rows - 1, .distinct = true}};
       }},
      {.name = "counts",
       .doc = "[requests]: how many pairs of each are real, up to topk; the others may hold anything",
       .optional = true,
       .dtypes = integers,
       .selects = [](const OpCall& call) -> std::vector<SelectionRange> {
         return {{.low = 0, .high = call.inputs[kIndices].shape[1]}};
       }},
      {.name = "slot_map",
       .doc = "[src rows]: slot_map[src row] becomes dst row for each pair; src rows distinct then",
       .optional = true,
       .mutated = true,
       .dtypes = integers,
       .selects = [](const OpCall& call) -> std::vector<SelectionRange> {
         return {{.low = 0, .high = call.inputs[kDst].shape[0] - 1}};
       }},
  };
  spec.inputs[static_cast<std::size_t>(pinned)].pinned = true;
  spec.attributes = {
      {"max_sms", std::int64_t{0}, false, "most multiprocessors to keep busy, 0 for as many as pay; GPUs only"},
      check_bounds_attribute("'indices'")};
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec.infer = [op](const CallInputs& inputs, const Attributes& attributes) {
    return infer_rows(op, inputs, attributes);
  };
  spec.variants = rows_variants(parse);
  spec.cost = [parse](const OpCall& call) { return rows_cost(parse(call)); };
  spec.reference = [parse](const OpCall& call) { rows_reference(parse(call), call); };
  spec.examples = rows_examples();
  spec.random_example = [](std::mt19937_64& random) { return random_rows(random, kAllDTypes); };
  spec.spoil_inputs = [parse](const OpCall& call, std::mt19937_64& random) { spoil_rows(parse(call), call, random); };
  spec.skipped_work = [parse](const OpCall& call) { return skipped_by_rows(parse(call), call); };
  spec.tolerance = [](DType) { return Tolerance{}; };
  return spec;
}

}  // namespace

std::vector<OpSpec> gather_specs() {
  return {rows_spec("sparse_kv_gather",
                    "dst[j] = src[i] for each pair (i, j) of indices, bit for bit; src may lie in pinned host memory; "
                    "pairs that name a row which does not exist are skipped",
                    kSrc),
          rows_spec("kv_scatter",
                    "dst[j] = src[i] for each pair (i, j) of indices, bit for bit; dst may lie in pinned host memory; "
                    "pairs that name a row which does not exist are skipped",
                    kDst)};
}

}  // namespace kiln::kv_cache
