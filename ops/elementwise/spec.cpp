#include "ops/elementwise/spec.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "ops/common/traffic.hpp"
#include "ops/elementwise/launch.hpp"
#include "ops/elementwise/promotion.hpp"
#include "ops/elementwise/reference.hpp"

namespace kiln::elementwise {
namespace {

/// A binary op takes either a second tensor or the number `other`.
void check_second_operand(const OpRow& row, std::span<const TensorView> inputs, const Attributes& attributes) {
  if (row.arity != 2) return;
  const bool has_other = !attributes.is_none("other");
  if (inputs.size() == 2 && has_other)
    throw_value_error(fmt::format("op '{}': both input 'y' ({}) and attribute 'other' ({}) are given; give one of them",
                                  row.name, describe(inputs[1]), to_string(*attributes.find("other"))));
  if (inputs.size() == 1 && !has_other)
    throw_value_error(fmt::format(
        "op '{}': the second operand is missing; give input 'y' (a tensor) or attribute 'other' (a number)", row.name));
}

Dims broadcast(const OpRow& row, std::span<const TensorView> inputs) {
  std::vector<Dims> shapes;
  for (const TensorView& input : inputs) shapes.push_back(input.shape);
  try {
    return broadcast_shapes(shapes);
  } catch (const UsageError&) {
    std::string text;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      text += fmt::format("{}'{}' {}", i == 0 ? "" : ", ", input_name(row, static_cast<int>(i)),
                          to_string(inputs[i].shape));
    throw_value_error(
        fmt::format("op '{}': shapes do not broadcast: {}; aligned at the right, each dimension must be equal or 1",
                    row.name, text));
  }
}

std::vector<TensorMeta> infer(const OpRow& row, std::span<const TensorView> inputs, const Attributes& attributes) {
  check_second_operand(row, inputs, attributes);
  if (row.name == "gelu") {
    const std::string& approximate = attributes.get_string("approximate");
    if (approximate != "none" && approximate != "tanh")
      throw_value_error(
          fmt::format("op 'gelu': attribute 'approximate' is '{}', expected 'none' or 'tanh'", approximate));
  }
  const ElementwiseTypes types = resolve_types(row, inputs, attributes);
  return {{types.out, broadcast(row, inputs)}};
}

Cost cost(const OpRow& row, const OpCall& call) {
  const TensorView& output = call.outputs[0];
  const auto numel = static_cast<double>(output.numel());
  Cost cost{row.flops * numel, numel * static_cast<double>(itemsize_bytes(output.dtype))};
  if (numel > 0)
    for (const TensorView& input : kernel_inputs(row, call.inputs)) cost.bytes += common::stored_bytes(input);
  return cost;
}

OpSpec make_spec(const OpRow& row, const KernelSource& source) {
  OpSpec spec;
  spec.name = row.name;
  spec.doc = row.doc;
  for (int i = 0; i < row.arity; ++i) {
    const bool optional = row.arity == 2 && i == 1;
    const bool is_condition = row.rule == DTypeRule::where && i == 0;
    spec.inputs.push_back(
        {input_name(row, i), optional ? "left out where 'other' is given" : (is_condition ? "bool" : ""), optional});
  }
  spec.outputs = {{"out", ""}};
  spec.attributes = row.attributes;
  for (const ScalarAttribute& scalar : scalar_attributes(row)) spec.attributes.push_back(scalar.spec);
  spec.dtypes = supported_dtypes(row);
  spec.aliasing = Aliasing::elementwise;
  spec.infer = [&row](std::span<const TensorView> inputs, const Attributes& attributes) {
    return infer(row, inputs, attributes);
  };
  spec.variants = elementwise_variants(
      ElementwiseParser([&row](const OpCall& call) { return elementwise_call(row, call); }), source);
  spec.cost = [&row](const OpCall& call) { return cost(row, call); };
  spec.reference = [&row](const OpCall& call) { run_reference(row, call); };
  spec.examples = make_examples(row);
  spec.tolerance = [&row](DType out) { return tolerance(row, out); };
  spec.input_ranges = row.ranges;
  spec.integer_ranges = row.integer_ranges;
  return spec;
}

}  // namespace

std::vector<OpSpec> elementwise_specs() {
  const KernelSource source = embedded_source("ops/elementwise/kernel.hpp");
  std::vector<OpSpec> specs;
  for (const OpRow& row : op_table()) specs.push_back(make_spec(row, source));
  return specs;
}

}  // namespace kiln::elementwise
