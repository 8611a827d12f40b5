#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/common/call_parser.hpp"
#include "ops/kv_cache/iteration_paged.hpp"
#include "ops/kv_cache/paged_call.hpp"
#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// Inputs key, value, key_cache, value_cache and slot_mapping of `op`, in this order. UsageError: value for shapes that
/// do not fit each other, type for dtypes that differ.
/// `quantises`: caches may have 8 bits of whatever dtype key and value are.
void check_append(std::string_view op, std::span<const TensorView> inputs, PageLayout layout, bool quantises = false);

/// kv_append: inputs key, value, key_cache, value_cache, slot_mapping.
std::vector<TensorMeta> infer_append(std::span<const TensorView> inputs, const Attributes& attributes);
/// kv_append_layers: the same with tables of addresses, a cache for each layer.
std::vector<TensorMeta> infer_append_layers(std::span<const TensorView> inputs, const Attributes& attributes);

/// What both ops do.
struct AppendCall {
  ops::PagedAppendIteration iteration;  ///< in elements, `parts` left open; heads that lie together are one row
  std::int64_t layers;
  bool by_table;  ///< the caches are given by address
  DType dtype = DType::f32, slots = DType::i64;
  std::int64_t elements = 0;  ///< of the new keys, and of the values
  bool check_bounds = false;

  const char* op() const { return by_table ? "kv_append_layers" : "kv_append"; }
};
AppendCall append_call(const OpCall& call);
using AppendParser = common::CallParser<AppendCall>;

/// kv_append_layers: the cache at each address, [blocks, elements of a block], without data.
TensorView layer_cache_view(const OpCall& call);

/// Bytes of new keys and values.
double appended_bytes(const OpCall& call);

}  // namespace kiln::kv_cache
