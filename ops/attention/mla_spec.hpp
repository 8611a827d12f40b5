#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

OpSpec mla_spec();

}  // namespace kiln::attention
