#include "ops/reduction/single_element.hpp"

#include <algorithm>
#include <optional>

#include "ops/common/call_parser.hpp"
#include "ops/layout/copy_config.hpp"
#include "ops/layout/copy_plan.hpp"

namespace kiln::reduction {
namespace {

using layout::Copy;

/// The copy that a call is, if it is one.
std::optional<Copy> copy_of(const OpRow& row, const OpCall& call) {
  const TensorView& input = call.inputs[0];
  const Reduction reduction = resolve(row, input, call.attributes);
  const TensorView& output = call.outputs[0];
  if (reduction.count != 1 || output.numel() == 0 || reduction.via != input.dtype || output.dtype != input.dtype)
    return std::nullopt;
  TensorView kept = input;
  kept.shape = output.shape;
  kept.strides = Dims();
  const bool keeps_dims = output.ndim() == input.ndim();
  for (int axis = 0; axis < input.ndim(); ++axis)
    if (keeps_dims || std::find(reduction.axes.begin(), reduction.axes.end(), axis) == reduction.axes.end())
      kept.strides.push_back(input.strides[axis]);
  return layout::make_copy(output, kept);
}

}  // namespace

bool may_be_the_element(Kind kind) noexcept {
  return kind == Kind::sum || kind == Kind::mean || kind == Kind::prod || kind == Kind::amax || kind == Kind::amin;
}

Variant single_element_variant(const OpRow& row) {
  using Call = std::optional<Copy>;
  const common::CallParser<Call> parse([&row](const OpCall& call) { return copy_of(row, call); });
  return common::variant_of<Call>(
      parse, {.name = "single_element",
              .doc = "each output is one element of x, copied",
              .source = embedded_source("ops/layout/kernel.hpp"),
              .kernel = layout::kernel_name(layout::CopyKind::contiguous),
              .serves = [](const Call& copy, const Target&) { return copy.has_value(); },
              .space = [](const Target&) { return ConfigSpace(); },
              .plan =
                  [op = row.name](const Call& copy, const Config&, const Target& target) {
                    const layout::CopyKind kind = layout::kind_of(copy.value(), target.type);
                    LaunchPlan plan;
                    plan.launches.push_back(layout::make_launch(
                        kind, op, *copy, layout::default_config(kind, *copy, target), target, {.tensor = 0}, 1));
                    return plan;
                  }});
}

}  // namespace kiln::reduction
