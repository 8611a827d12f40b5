#pragma once

#include "ops/op_spec.hpp"

namespace kiln::rope {

OpSpec rope_append_spec();

}  // namespace kiln::rope
