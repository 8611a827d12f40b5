#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::scan {

std::vector<OpSpec> scan_specs();

}  // namespace kiln::scan
