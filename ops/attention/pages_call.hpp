#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/attention/paged_table.hpp"
#include "ops/attention/split_parts.hpp"
#include "ops/attention/strides.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

/// What calls of the ops over pages have alike, as kernels see it: attention_paged's and mla_decode's. Views are
/// without data.
struct PagesCall {
  DType dtype = DType::f32;
  PagedTable pages = {};
  Dims cache_shape;
  TensorView out, lse;
  bool returns_lse = false;
  std::int64_t processors = 0;  ///< multiprocessors or threads, 0 if unknown

  PagesCall() = default;
  /// `cache`: the input whose blocks the table names; out and lse are the call's outputs, lse where there are two.
  PagesCall(const OpCall& call, std::size_t cache, const PagedTable& table);

  /// The strides of table, lengths and lse in an iteration, in one part.
  template <typename Iteration>
  void set_strides(Iteration& it) const {
    it.splits = 1;
    it.table_request = pages.starts.has_value() ? 0 : step(pages.table, 0);
    it.table_entry = step(pages.table, pages.table.ndim() - 1);
    it.length_stride = step(pages.lengths, 0);
    if (!returns_lse) return;
    it.lse_batch = step(lse, 0);
    it.lse_head = step(lse, 1);
    it.lse_row = step(lse, 2);
  }
};

/// An iteration whose kernel leaves its parts in scratch memory.
template <typename Iteration>
void set_parts(Iteration& it, const SplitParts& parts) {
  it.splits = static_cast<int>(parts.rows.shape[0]);
  it.out = {parts.rows.strides[1], parts.rows.strides[3], parts.rows.strides[2], 1};
  it.out_split = parts.rows.strides[0];
  it.lse_split = parts.lses.strides[0];
  it.lse_batch = parts.lses.strides[1];
  it.lse_row = parts.lses.strides[2];
  it.lse_head = parts.lses.strides[3];
}

struct PagesInputs {
  const char* cache;                 ///< the name of the input whose blocks the table names
  int table_tensor, lengths_tensor;  ///< among the call's tensors, outputs first
};
/// check_bounds: a look at lengths and at the entries that they use before anything else.
void add_bounds_check(const char* op, const PagesCall& call, const PagesInputs& inputs, const Target& target,
                      LaunchPlan& plan);

}  // namespace kiln::attention
