#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

OpSpec merge_spec();

}  // namespace kiln::attention
