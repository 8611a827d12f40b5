#pragma once

#include <vector>

#include "ops/op_spec.hpp"
#include "ops/rope/kernel_form.hpp"

namespace kiln::rope {

/// The form as a template argument.
StructValue argument_of(const ops::RopeForm& form);

/// One, for all calls.
std::vector<Variant> rope_variants();

}  // namespace kiln::rope
