#include "ops/attention/varlen_reference.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ops/attention/paged_table.hpp"
#include "ops/attention/problem.hpp"
#include "ops/attention/reference.hpp"
#include "ops/attention/varlen_problem.hpp"
#include "ops/common/element.hpp"
#include "ops/common/position.hpp"

namespace kiln::attention {
namespace {

/// Rows `from` to `to` of a packed tensor as those of one request, [1, S, H, D].
TensorView sequence_of(const TensorView& packed, std::int64_t from, std::int64_t to) {
  TensorView view = packed;
  view.data = common::address_at(packed, from * packed.strides[0]);
  view.shape = {1, std::max<std::int64_t>(to - from, 0), packed.shape[1], packed.shape[2]};
  view.strides = {0, packed.strides[0], packed.strides[1], packed.strides[2]};
  return view;
}

/// Columns `from` to `to` of lse, [1, H, S].
TensorView logs_of(const TensorView& lse, std::int64_t from, std::int64_t to) {
  TensorView view = lse;
  view.data = common::address_at(lse, from * lse.strides[1]);
  view.shape = {1, lse.shape[0], to - from};
  view.strides = {0, lse.strides[0], lse.strides[1]};
  return view;
}

/// A sequence's keys or values, [1, S, H, D]; of pages a copy.
class SequenceRows {
 public:
  SequenceRows(const TensorView& rows, const CallInputs& inputs, const VarlenProblem& problem, std::int64_t number) {
    const auto [begin, end] = sequence_keys(inputs, problem, number);
    if (!problem.in_pages()) {
      view_ = sequence_of(rows, begin, end);
      return;
    }
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(problem.sequences), std::max<std::int64_t>(end, 0));
    const PagedTable table{inputs[kVarlenTable], dense_view(lengths.data(), DType::i64, {problem.sequences}),
                           problem.sequences,    problem.page,
                           problem.num_blocks,   problem.keys};
    tokens_.emplace(rows, kv_cache::PageLayout::nhd, table, number);
    view_ = tokens_->view;
  }
  const TensorView& view() const { return view_; }

 private:
  std::optional<GatheredTokens> tokens_;
  TensorView view_;
};

void fill_with(const TensorView& view, double value) {
  common::for_each_position(view.shape, [&](const Dims& position) {
    common::store_at<double>(view, common::offset_at(view, position), value);
  });
}

}  // namespace

void varlen_reference(const OpCall& call) {
  const VarlenProblem problem = varlen_problem(call.inputs, call.attributes);
  Attributes attributes;
  for (const char* name : {"causal", "scale", "window", "softcap", "out_dtype", "return_lse"})
    attributes.set(name, *call.attributes.find(name));
  attributes.set("layout", std::string("BSHD"));
  const double values_of_nobody[] = {0, -std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < call.outputs.size(); ++i) fill_with(call.outputs[i], values_of_nobody[i]);
  for (std::int64_t number = 0; number < problem.sequences; ++number) {
    const auto [from, to] = sequence_queries(call.inputs, problem, number);
    if (from >= to) continue;
    const SequenceRows keys(call.inputs[kPackedKey], call.inputs, problem, number),
        values(call.inputs[kPackedValue], call.inputs, problem, number);
    std::vector<TensorView> inputs(kValueScale + 1);
    inputs[kQuery] = sequence_of(call.inputs[kPackedQuery], from, to);
    inputs[kKey] = keys.view();
    inputs[kValue] = values.view();
    inputs[kQueryScale] = problem.query_scale.of_request(number);
    inputs[kKeyScale] = problem.key_scale.of_request(number);
    inputs[kValueScale] = problem.value_scale.of_request(number);
    if (problem.slopes != nullptr) {
      inputs[kSlopes] = *problem.slopes;
      if (problem.slopes->ndim() == 2) {
        inputs[kSlopes].data = common::address_at(*problem.slopes, number * problem.slopes->strides[0]);
        inputs[kSlopes].shape[0] = 1;
      }
    }
    if (problem.sinks != nullptr) inputs[kSinks] = *problem.sinks;
    std::vector<TensorView> outputs = {sequence_of(call.outputs[0], from, to)};
    if (problem.returns_lse) outputs.push_back(logs_of(call.outputs[1], from, to));
    attention_reference({inputs, outputs, attributes});
    const std::int64_t behind = from + problem.max_queries;
    if (behind >= to) continue;
    fill_with(sequence_of(call.outputs[0], behind, to), values_of_nobody[0]);
    if (problem.returns_lse) fill_with(logs_of(call.outputs[1], behind, to), values_of_nobody[1]);
  }
}

}  // namespace kiln::attention
