#pragma once

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

// The naive forms, element by element on the CPU.
void paged_gather_reference(const OpCall& call);
void append_reference(const OpCall& call);
/// Writes to the addresses in the tables.
void append_layers_reference(const OpCall& call);
void swap_reference(const OpCall& call);

}  // namespace kiln::kv_cache
