#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"
#include "ops/op_spec.hpp"

namespace kiln {

/// The bytes a view can touch, relative to its data pointer: [begin, end), begin <= 0. Both are 0 for a zero-size view.
struct MemoryExtent {
  std::int64_t begin_bytes = 0;
  std::int64_t end_bytes = 0;
  std::int64_t alignment_bytes = 1;  ///< of the data pointer: an element's size, or more where the plan needs it
  bool empty() const noexcept { return begin_bytes == end_bytes; }
};
/// UsageError(value) when the view would span more than int64 counts.
MemoryExtent memory_extent(const TensorView& view);

/// True when `input`, broadcast to `output`'s shape, puts every element where `output` has it: an update exactly in
/// place.
bool same_elements(const TensorView& output, const TensorView& input) noexcept;
/// True when no element of `a` shares a byte with one of `b`. Exact for views cut from one array by slicing; views so
/// irregular that it cannot tell count as overlapping, since a wrong "yes" corrupts data while a wrong "no" costs the
/// caller a copy.
bool provably_disjoint(const TensorView& a, const TensorView& b) noexcept;
/// True when two elements of one view may share memory: a zero stride, or strides that interleave so that it cannot
/// tell.
bool may_overlap_itself(const TensorView& view) noexcept;

/// UsageError(value) for a null pointer of a non-empty tensor or one that is not aligned as its extent says, and for an
/// output, or input that the op changes, that shares memory with another tensor in a way the op does not allow.
/// `tensors`: outputs first, `num_outputs` of them, then inputs; `extents` in the same order.
void check_memory(const OpSpec& spec, std::span<const TensorView* const> tensors, int num_outputs,
                  std::span<const MemoryExtent> extents);

}  // namespace kiln
