#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

/// attention's reference of each request, whose keys and values are taken out of their pages first.
void paged_reference(const OpCall& call);

}  // namespace kiln::attention
