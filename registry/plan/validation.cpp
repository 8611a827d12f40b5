#include "registry/plan/validation.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/numbered_tensors.hpp"

namespace kiln {
namespace {

std::string signature(const OpSpec& spec) {
  std::string text;
  for (const InputSpec& input : spec.inputs) {
    if (!text.empty()) text += ", ";
    text += input.optional ? "[" + input.name + "]" : input.name + (input.repeated ? "..." : "");
  }
  return "(" + text + ")";
}

void check_view(const OpSpec& spec, const std::string& label, const TensorView& view) {
  if (view.shape.size() != view.strides.size())
    throw_value_error("op '" + spec.name + "': " + label + " has " + std::to_string(view.shape.size()) +
                      " dimensions, but " + std::to_string(view.strides.size()) +
                      " strides; there must be one stride for each dimension");
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.shape[axis] < 0)
      throw_value_error("op '" + spec.name + "': " + label + " has a negative extent, " +
                        std::to_string(view.shape[axis]) + " in dimension " + std::to_string(axis) + " of shape " +
                        to_string(view.shape) + "; extents are 0 or more");
}

std::string_view type_name(const AttributeValue& value) {
  constexpr std::string_view kTypeNames[] = {
      "None",     "a boolean", "an integer",         "a number",
      "a string", "a dtype",   "a list of integers", "an integer of 2^63 or more"};
  static_assert(std::size(kTypeNames) == std::variant_size_v<AttributeValue>);
  return kTypeNames[value.index()];
}

/// `value` as an attribute whose default is `fallback`, or nullptr-like false when the types do not go together.
bool convert(const AttributeValue& fallback, AttributeValue& value) {
  if (std::holds_alternative<std::monostate>(fallback))
    return true;  // an optional scalar: the op's `infer` says which types it takes
  if (value.index() == fallback.index()) return true;
  if (std::holds_alternative<std::uint64_t>(value) && std::holds_alternative<std::int64_t>(fallback)) return true;
  if (std::holds_alternative<double>(fallback)) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      value = static_cast<double>(*integer);
      return true;
    }
    if (const auto* large = std::get_if<std::uint64_t>(&value)) {
      value = static_cast<double>(*large);
      return true;
    }
    if (const auto* boolean = std::get_if<bool>(&value)) {
      value = *boolean ? 1.0 : 0.0;
      return true;
    }
  }
  return false;
}

}  // namespace

void check_left_out(const OpSpec& spec, const LeftOut& left_out) {
  for (std::size_t i = 0; i < left_out.size() && !spec.inputs.empty(); ++i)
    if (left_out[i] && !input_spec(spec, i).optional)
      throw_type_error("op '" + spec.name + "': " + tensor_label(spec, i, 0) + " is left out, and the op needs it");
}

void check_inputs(const OpSpec& spec, const CallInputs& inputs) {
  const auto required = static_cast<std::size_t>(
      std::count_if(spec.inputs.begin(), spec.inputs.end(), [](const InputSpec& input) { return !input.optional; }));
  const bool repeated = !spec.inputs.empty() && spec.inputs.back().repeated;
  if (inputs.size() < required || (inputs.size() > spec.inputs.size() && !repeated))
    throw_value_error("op '" + spec.name + "' takes " +
                      (repeated ? std::to_string(required) + " or more"
                       : required == spec.inputs.size()
                           ? std::to_string(required)
                           : std::to_string(required) + " to " + std::to_string(spec.inputs.size())) +
                      (spec.inputs.size() == 1 && !repeated ? " input " : " inputs ") + signature(spec) + ", got " +
                      std::to_string(inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& view = inputs[i];
    const InputSpec& input = input_spec(spec, i);
    if (inputs.find(i) == nullptr) continue;
    const std::string label = tensor_label(spec, i, 0);
    check_view(spec, label, view);
    const std::vector<DType>& dtypes = input.dtypes.empty() ? spec.dtypes : input.dtypes;
    if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) {
      std::string supported;
      for (const DType dtype : dtypes) supported += (supported.empty() ? "" : ", ") + std::string(name(dtype));
      throw_not_implemented("op '" + spec.name + "' has no kernel for " + label + " of dtype " +
                            std::string(name(view.dtype)) + "; its dtypes: " + supported);
    }
    if (input.mutated && may_overlap_itself(view))
      throw_value_error("op '" + spec.name + "': elements of " + label + " may share memory with one another (" +
                        describe(view) + "), and the op writes them; give a tensor whose elements are distinct");
  }
}

void check_one_device(const OpSpec& spec, const CallInputs& inputs, std::span<const TensorView> outputs) {
  const auto is_cuda = [](const TensorView& view) { return view.device.is_cuda(); };
  const bool runs_on_gpu =
      std::any_of(inputs.begin(), inputs.end(), is_cuda) || std::any_of(outputs.begin(), outputs.end(), is_cuda);
  const TensorView* first = nullptr;  // of those that say where the call runs
  std::string first_label;
  const auto check = [&](const TensorView& view, const std::string& label) {
    if (first == nullptr) {
      first = &view;
      first_label = label;
    }
    if (view.device == first->device) return;
    throw_type_error("op '" + spec.name + "': " + label + " is on " + to_string(view.device) + ", but " + first_label +
                     " is on " + to_string(first->device) +
                     "; all tensors of a call live on one device (kiln::to_device copies)");
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& input = input_spec(spec, i);
    const bool lies_elsewhere =
        inputs.find(i) == nullptr || (input.pinned && runs_on_gpu && !inputs[i].device.is_cuda());
    if (!lies_elsewhere) check(inputs[i], tensor_label(spec, i, 0));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) check(outputs[i], tensor_label(spec, i, outputs.size()));
}

Attributes complete_attributes(const OpSpec& spec, const Attributes& given) {
  for (const auto& [name, value] : given.entries()) {
    const bool known = std::any_of(spec.attributes.begin(), spec.attributes.end(),
                                   [&](const AttributeSpec& attribute) { return attribute.name == name; });
    if (known) continue;
    if (spec.attributes.empty())
      throw_value_error("op '" + spec.name + "' has no attributes, but '" + name + "' was given");
    std::vector<std::string> names;
    for (const AttributeSpec& attribute : spec.attributes) names.push_back(attribute.name);
    std::string all;
    for (const std::string& candidate : names) all += (all.empty() ? "" : ", ") + candidate;
    throw_value_error("op '" + spec.name + "' has no attribute '" + name + "'" + did_you_mean(name, names) +
                      " (its attributes: " + all + ")");
  }
  Attributes complete;
  for (const AttributeSpec& attribute : spec.attributes) {
    const AttributeValue* found = given.find(attribute.name);
    if (found == nullptr) {
      if (attribute.required)
        throw_value_error("op '" + spec.name + "' needs attribute '" + attribute.name + "'" +
                          (std::holds_alternative<std::monostate>(attribute.fallback)
                               ? ""
                               : ", " + std::string(type_name(attribute.fallback))));
      complete.set(attribute.name, attribute.fallback);
      continue;
    }
    AttributeValue value = *found;
    if (std::holds_alternative<std::uint64_t>(value) && std::holds_alternative<std::int64_t>(attribute.fallback) &&
        !attribute.is_unsigned)
      throw_value_error("op '" + spec.name + "': attribute '" + attribute.name + "' = " + to_string(value) +
                        " does not fit 64 bits with a sign");
    if (!convert(attribute.fallback, value))
      throw_type_error("op '" + spec.name + "': attribute '" + attribute.name + "' must be " +
                       std::string(type_name(attribute.fallback)) + ", got " + std::string(type_name(value)) + ", " +
                       to_string(value));
    complete.set(attribute.name, std::move(value));
  }
  return complete;
}

void check_outputs(const OpSpec& spec, std::span<const TensorView> outputs, std::span<const TensorMeta> expected) {
  if (spec.outputs.empty())
    throw_value_error("op '" + spec.name + "' changes its inputs in place and makes no output, but " +
                      std::to_string(outputs.size()) + (outputs.size() == 1 ? " was given" : " were given"));
  if (outputs.size() != expected.size())
    throw_value_error("op '" + spec.name + "' has " + std::to_string(expected.size()) +
                      (expected.size() == 1 ? " output" : " outputs") + ", but " + std::to_string(outputs.size()) +
                      " were given");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorView& view = outputs[i];
    const std::string label = tensor_label(spec, i, outputs.size());
    check_view(spec, label, view);
    if (view.dtype != expected[i].dtype)
      throw_type_error("op '" + spec.name + "': " + label + " must be " + std::string(name(expected[i].dtype)) +
                       " for these inputs, the given one is " + std::string(name(view.dtype)));
    if (view.shape != expected[i].shape)
      throw_value_error("op '" + spec.name + "': " + label + " must have shape " + to_string(expected[i].shape) +
                        " for these inputs, the given one has " + to_string(view.shape));
    if (may_overlap_itself(view))
      throw_value_error("op '" + spec.name + "': elements of " + label + " may share memory with one another (" +
                        describe(view) +
                        "), so what it would hold is undefined; give an output whose elements are distinct");
  }
}

}  // namespace kiln
