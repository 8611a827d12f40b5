#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln {

/// The built-in ops, one line per family: no static-initialisation tricks, so a static link drops nothing.
std::vector<OpSpec> builtin_ops();

}  // namespace kiln
