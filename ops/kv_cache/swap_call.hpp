#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/kv_cache/iteration_paged.hpp"
#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// swap_blocks: inputs dst, src, block_mapping.
std::vector<TensorMeta> infer_swap(std::span<const TensorView> inputs, const Attributes& attributes);
/// In elements.
ops::SwapIteration swap_iteration(const OpCall& call);

}  // namespace kiln::kv_cache
