#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

OpSpec varlen_spec();

}  // namespace kiln::attention
