#include "core/tensor.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse_range(const TensorView& view) {
  throw_value_error(fmt::format("tensor {} reaches beyond the address space", describe(view)));
}

}  // namespace

bool TensorView::is_contiguous() const {
  if (numel() == 0) return true;
  std::int64_t expected = 1;
  for (int axis = ndim() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;  // its stride is never used
    if (strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

ByteRange byte_range(const TensorView& view) {
  const auto* data = static_cast<const std::byte*>(view.data);
  if (view.numel() == 0) return {data, data};
  std::int64_t lowest = 0;  // in elements, from data
  std::int64_t highest = 0;
  for (int axis = 0; axis < view.ndim(); ++axis) {
    std::int64_t reach = 0;
    std::int64_t& bound = view.strides[axis] < 0 ? lowest : highest;
    if (__builtin_mul_overflow(view.shape[axis] - 1, view.strides[axis], &reach) ||
        __builtin_add_overflow(bound, reach, &bound))
      refuse_range(view);
  }
  std::int64_t begin_bytes = 0;
  std::int64_t end_bytes = 0;
  const std::int64_t item_bytes = itemsize_bytes(view.dtype);
  if (__builtin_mul_overflow(lowest, item_bytes, &begin_bytes) ||
      __builtin_mul_overflow(highest, item_bytes, &end_bytes) ||
      __builtin_add_overflow(end_bytes, item_bytes, &end_bytes))
    refuse_range(view);
  // Integers instead of pointers: the range of a view that does not fit its memory must be computable, to be refused.
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  return {reinterpret_cast<const std::byte*>(address + static_cast<std::uintptr_t>(begin_bytes)),
          reinterpret_cast<const std::byte*>(address + static_cast<std::uintptr_t>(end_bytes))};
}

TensorView dense_view(void* data, DType dtype, const Dims& shape, Device device) {
  return {data, dtype, device, shape, contiguous_strides(shape)};
}

std::string describe(const TensorView& view) {
  return fmt::format("{} {} strides {} on {}", name(view.dtype), to_string(view.shape), to_string(view.strides),
                     to_string(view.device));
}

}  // namespace kiln
