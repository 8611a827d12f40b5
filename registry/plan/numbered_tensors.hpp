#pragma once

#include <cstddef>
#include <string>

#include "ops/op_spec.hpp"

namespace kiln {

/// "output 'out'" or "input 'other'", for messages. Tensors are numbered outputs first.
std::string tensor_label(const OpSpec& spec, std::size_t tensor, std::size_t num_outputs);

/// The spec of input number `input`; a repeated one is the last.
const InputSpec& input_spec(const OpSpec& spec, std::size_t input);

}  // namespace kiln
