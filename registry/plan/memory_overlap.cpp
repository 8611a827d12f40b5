#include "registry/plan/memory_overlap.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "registry/plan/numbered_tensors.hpp"

namespace kiln {
namespace {

std::uint64_t address_of(const TensorView& view) noexcept {
  return reinterpret_cast<std::uintptr_t>(view.data);
}

/// One dimension with more than one element, in bytes, its direction dropped.
struct Span {
  std::uint64_t stride_bytes;
  std::uint64_t steps;
  bool second;  ///< of the second view of a pair
};

std::uint64_t magnitude(std::int64_t value) noexcept {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

/// Appends the view's spans and returns its lowest address.
std::uint64_t collect(const TensorView& view, bool second, std::array<Span, 2 * kMaxRank>& spans,
                      std::size_t& count) noexcept {
  std::uint64_t lowest = address_of(view);
  const auto itemsize = static_cast<std::uint64_t>(itemsize_bytes(view.dtype));
  for (int axis = 0; axis < view.ndim(); ++axis) {
    if (view.shape[axis] <= 1 || view.strides[axis] == 0) continue;
    const std::uint64_t stride = magnitude(view.strides[axis]) * itemsize;
    const auto steps = static_cast<std::uint64_t>(view.shape[axis] - 1);
    if (view.strides[axis] < 0) lowest -= stride * steps;
    spans[count++] = {stride, steps, second};
  }
  return lowest;
}

bool intersect(const TensorView& a, const MemoryExtent& a_extent, const TensorView& b,
               const MemoryExtent& b_extent) noexcept {
  if (a_extent.empty() || b_extent.empty()) return false;
  const std::uint64_t a_at = address_of(a), b_at = address_of(b);
  return a_at + static_cast<std::uint64_t>(a_extent.begin_bytes) <
             b_at + static_cast<std::uint64_t>(b_extent.end_bytes) &&
         b_at + static_cast<std::uint64_t>(b_extent.begin_bytes) <
             a_at + static_cast<std::uint64_t>(a_extent.end_bytes);
}

/// ", starting 4 bytes after it": two views that overlap may look the same but for that.
std::string offset_text(const TensorView& output, const TensorView& other) {
  const std::uint64_t out_at = address_of(output), other_at = address_of(other);
  if (out_at == other_at) return ", starting at the same address";
  const std::uint64_t bytes = out_at > other_at ? out_at - other_at : other_at - out_at;
  return ", starting " + std::to_string(bytes) + (bytes == 1 ? " byte " : " bytes ") +
         (out_at > other_at ? "after" : "before") + " it";
}

/// For ops that change inputs, whose tensors are all inputs.
void check_changed_inputs(const OpSpec& spec, std::span<const TensorView* const> tensors,
                          std::span<const MemoryExtent> extents) {
  for (std::size_t changed = 0; changed < tensors.size(); ++changed) {
    if (!input_spec(spec, changed).mutated) continue;
    for (std::size_t other = 0; other < tensors.size(); ++other) {
      if (other == changed || !intersect(*tensors[changed], extents[changed], *tensors[other], extents[other]) ||
          provably_disjoint(*tensors[changed], *tensors[other]))
        continue;
      throw_value_error("op '" + spec.name + "' writes " + tensor_label(spec, changed, 0) + " (" +
                        describe(*tensors[changed]) + "), which overlaps " + tensor_label(spec, other, 0) + " (" +
                        describe(*tensors[other]) + ") in memory" + offset_text(*tensors[changed], *tensors[other]) +
                        "; they must share none: copy one of them first");
    }
  }
}

/// Whether an output may be exactly an input, both counted from 0.
bool may_be_input(Aliasing aliasing, std::size_t output, std::size_t input) noexcept {
  return aliasing == Aliasing::elementwise || (aliasing == Aliasing::first_input && output == 0 && input == 0);
}

}  // namespace

MemoryExtent memory_extent(const TensorView& view) {
  MemoryExtent extent;
  // Before anything is multiplied: the strides of what is empty mean nothing, and may be any.
  for (const std::int64_t elements : view.shape)
    if (elements == 0) return extent;
  const std::int64_t itemsize = itemsize_bytes(view.dtype);
  for (int axis = 0; axis < view.ndim(); ++axis) {
    std::int64_t reach = 0;
    std::int64_t& side = view.strides[axis] < 0 ? extent.begin_bytes : extent.end_bytes;
    if (__builtin_mul_overflow(view.shape[axis] - 1, view.strides[axis], &reach) ||
        __builtin_mul_overflow(reach, itemsize, &reach) || __builtin_add_overflow(side, reach, &side))
      throw_value_error("a tensor spans more bytes than int64 can count: " + describe(view));
  }
  if (__builtin_add_overflow(extent.end_bytes, itemsize, &extent.end_bytes))
    throw_value_error("a tensor spans more bytes than int64 can count: " + describe(view));
  extent.alignment_bytes = itemsize;
  return extent;
}

bool same_elements(const TensorView& output, const TensorView& input) noexcept {
  if (output.data != input.data || itemsize_bytes(output.dtype) != itemsize_bytes(input.dtype)) return false;
  for (int from_end = 1; from_end <= std::max(output.ndim(), input.ndim()); ++from_end) {
    const int out_axis = output.ndim() - from_end, in_axis = input.ndim() - from_end;
    const std::int64_t out_extent = out_axis >= 0 ? output.shape[out_axis] : 1;
    const std::int64_t in_extent = in_axis >= 0 ? input.shape[in_axis] : 1;
    if (out_extent != in_extent) return false;
    if (out_extent > 1 && output.strides[out_axis] != input.strides[in_axis]) return false;
  }
  return true;
}

bool provably_disjoint(const TensorView& a, const TensorView& b) noexcept {
  std::array<Span, 2 * kMaxRank> spans;
  std::size_t count = 0;
  const std::uint64_t a_low = collect(a, false, spans, count);
  const std::uint64_t b_low = collect(b, true, spans, count);
  std::sort(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Span& x, const Span& y) { return x.stride_bytes > y.stride_bytes; });

  // Split the strides into large and small ones, in every way that keeps their order. Modulo the gcd of the large ones
  // each view is a single run of bytes, whose length the small ones give; runs that do not meet on that circle never
  // meet in memory. All large: interleaved elements (x[::2], x[1::2]). Rows large: column slices of a matrix (x[:, :2],
  // x[:, 2:]). None large: the plain range test.
  std::uint64_t a_run = static_cast<std::uint64_t>(itemsize_bytes(a.dtype));
  std::uint64_t b_run = static_cast<std::uint64_t>(itemsize_bytes(b.dtype));
  for (std::size_t i = 0; i < count; ++i) (spans[i].second ? b_run : a_run) += spans[i].stride_bytes * spans[i].steps;
  if (a_low + a_run <= b_low || b_low + b_run <= a_low) return true;
  std::uint64_t circle = 0;
  for (std::size_t i = 0; i < count; ++i) {
    circle = std::gcd(circle, spans[i].stride_bytes);
    (spans[i].second ? b_run : a_run) -= spans[i].stride_bytes * spans[i].steps;
    const std::uint64_t ahead =
        b_low >= a_low ? (b_low - a_low) % circle : (circle - (a_low - b_low) % circle) % circle;
    if (ahead >= a_run && circle - ahead >= b_run) return true;
  }
  return false;
}

bool may_overlap_itself(const TensorView& view) noexcept {
  std::array<std::pair<std::uint64_t, std::uint64_t>, kMaxRank> dims;  // stride, extent
  std::size_t count = 0;
  for (int axis = 0; axis < view.ndim(); ++axis) {
    if (view.shape[axis] == 0) return false;
    if (view.shape[axis] > 1)
      dims[count++] = {magnitude(view.strides[axis]), static_cast<std::uint64_t>(view.shape[axis])};
  }
  std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count));
  std::uint64_t reached = 0;  // highest element offset of the dimensions so far
  for (std::size_t i = 0; i < count; ++i) {
    if (dims[i].first <= reached) return true;
    reached += dims[i].first * (dims[i].second - 1);
  }
  return false;
}

void check_memory(const OpSpec& spec, std::span<const TensorView* const> tensors, int num_outputs,
                  std::span<const MemoryExtent> extents) {
  const auto outputs = static_cast<std::size_t>(num_outputs);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (extents[i].empty()) continue;
    if (tensors[i]->data == nullptr)
      throw_value_error("op '" + spec.name + "': " + tensor_label(spec, i, outputs) +
                        " has a null data pointer, but is not empty: " + describe(*tensors[i]));
    // A GPU would answer with a fault that costs the process its whole context.
    const auto alignment = static_cast<std::uint64_t>(extents[i].alignment_bytes);
    if (const std::uint64_t beyond = address_of(*tensors[i]) & (alignment - 1); beyond != 0) [[unlikely]]
      throw_value_error("op '" + spec.name + "': the data pointer of " + tensor_label(spec, i, outputs) + " is " +
                        std::to_string(beyond) + (beyond == 1 ? " byte" : " bytes") + " past a multiple of " +
                        std::to_string(alignment) +
                        (extents[i].alignment_bytes == itemsize_bytes(tensors[i]->dtype)
                             ? ", the size of its elements; copy it to aligned memory: "
                             : ", where the op was resolved for one; resolve it for this tensor: ") +
                        describe(*tensors[i]));
  }
  if (spec.aliasing == Aliasing::any) return;
  if (spec.outputs.empty()) check_changed_inputs(spec, tensors, extents);
  for (std::size_t out = 0; out < outputs; ++out)
    for (std::size_t other = out + 1; other < tensors.size(); ++other) {
      if (!intersect(*tensors[out], extents[out], *tensors[other], extents[other])) continue;
      const bool in_place = other >= outputs && same_elements(*tensors[out], *tensors[other]);
      const bool is_allowed = other >= outputs && may_be_input(spec.aliasing, out, other - outputs);
      if (in_place && is_allowed) continue;
      if (!in_place && provably_disjoint(*tensors[out], *tensors[other])) continue;
      throw_value_error("op '" + spec.name + "': " + tensor_label(spec, out, outputs) + " (" + describe(*tensors[out]) +
                        ") overlaps " + tensor_label(spec, other, outputs) + " (" + describe(*tensors[other]) +
                        ") in memory" + offset_text(*tensors[out], *tensors[other]) + "; " +
                        (is_allowed
                             ? "the output may be exactly that input (same address, shape, strides and element size) "
                               "or share nothing with it"
                             : "they must share no memory in a call of this op") +
                        ": give another output, or copy the input first");
    }
}

}  // namespace kiln
