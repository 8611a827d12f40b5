#include "registry/plan/numbered_tensors.hpp"

#include <algorithm>

namespace kiln {

std::string tensor_label(const OpSpec& spec, std::size_t tensor, std::size_t num_outputs) {
  const bool is_output = tensor < num_outputs;
  const std::size_t index = is_output ? tensor : tensor - num_outputs;
  if (is_output)
    return "output '" + (index < spec.outputs.size() ? spec.outputs[index].name : std::to_string(index)) + "'";
  if (!spec.inputs.empty() && spec.inputs.back().repeated && index + 1 >= spec.inputs.size())
    return "input '" + spec.inputs.back().name + "[" + std::to_string(index + 1 - spec.inputs.size()) + "]'";
  return "input '" + (index < spec.inputs.size() ? spec.inputs[index].name : std::to_string(index)) + "'";
}

const InputSpec& input_spec(const OpSpec& spec, std::size_t input) {
  return spec.inputs[std::min(input, spec.inputs.size() - 1)];
}

}  // namespace kiln
