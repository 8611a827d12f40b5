#pragma once

#include "ops/kv_cache/paged_call.hpp"
#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

// The naive forms, element by element on the CPU.
void paged_gather_reference(const OpCall& call);
void append_reference(const OpCall& call);
/// Writes to the addresses in the tables.
void append_layers_reference(const OpCall& call);
void swap_reference(const OpCall& call);

/// cache[slots[t]] = rows[t], [T, H, D] of one dtype, where the slot is one of the cache's.
void append_rows(const TensorView& rows, const TensorView& cache, const TensorView& slots, PageLayout layout);

}  // namespace kiln::kv_cache
