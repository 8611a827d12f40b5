#pragma once

#include "ops/scan/scan_call.hpp"

namespace kiln::scan {

/// The variants of an op, all from `source`.
std::vector<Variant> scan_variants(const OpRow& row, const KernelSource& source);

}  // namespace kiln::scan
