#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/common/call_parser.hpp"
#include "ops/kv_cache/iteration_paged.hpp"
#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// swap_blocks: inputs dst, src, block_mapping.
std::vector<TensorMeta> infer_swap(std::span<const TensorView> inputs, const Attributes& attributes);

/// What swap_blocks does.
struct SwapCall {
  ops::SwapIteration iteration;  ///< in elements
  DType dtype = DType::f32, mapping = DType::i64;
  bool is_host_side = false;  ///< either tensor lies in host memory
  bool check_bounds = false;

  std::int64_t itemsize() const { return itemsize_bytes(dtype); }
};
SwapCall swap_call(const OpCall& call);
using SwapParser = common::CallParser<SwapCall>;

}  // namespace kiln::kv_cache
