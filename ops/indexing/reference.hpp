#pragma once

#include "ops/op_spec.hpp"

namespace kiln::indexing {

/// The naive forms, element by element on the CPU; scatter_add sums in double, integers in int64_t, and rounds once.
void index_select_reference(const OpCall& call);
void gather_reference(const OpCall& call);
void scatter_add_reference(const OpCall& call);

}  // namespace kiln::indexing
