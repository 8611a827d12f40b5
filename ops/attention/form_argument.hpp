#pragma once

#include "compiler/compile_request.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::attention {

/// A form as a template argument, field by field.
StructValue argument_of(const ops::AttentionForm& form);

}  // namespace kiln::attention
