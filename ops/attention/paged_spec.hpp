#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

OpSpec paged_spec();

}  // namespace kiln::attention
