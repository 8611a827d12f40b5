#include "ops/layout/reference.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "ops/common/element.hpp"

namespace kiln::layout {
namespace {

void copy_element(std::byte* to, DType to_dtype, const std::byte* from, DType from_dtype) {
  if (to_dtype == from_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(itemsize_bytes(to_dtype)));
    return;
  }
  common::visit_element(from, from_dtype, [&](auto value) {
    // Narrow floats are reached by way of float, as tl::cast does.
    if (is_floating(to_dtype) && itemsize_bytes(to_dtype) < 4)
      common::store_element(to, to_dtype, static_cast<double>(static_cast<float>(value)));
    else if constexpr (std::is_floating_point_v<decltype(value)>)
      common::store_element(to, to_dtype, static_cast<double>(value));
    else if constexpr (std::is_signed_v<decltype(value)>)
      common::store_element(to, to_dtype, static_cast<std::int64_t>(value));
    else
      common::store_element(to, to_dtype, static_cast<std::uint64_t>(value));
  });
}

}  // namespace

void copy_elements(const TensorView& out, const TensorView& in) {
  std::array<std::int64_t, kMaxRank> coordinates{};
  const std::int64_t numel = out.numel();
  for (std::int64_t element = 0; element < numel; ++element) {
    std::int64_t to = 0, from = 0;
    for (int axis = 0; axis < out.ndim(); ++axis) {
      to += coordinates[static_cast<std::size_t>(axis)] * out.strides[axis];
      from += coordinates[static_cast<std::size_t>(axis)] * in.strides[axis];
    }
    copy_element(static_cast<std::byte*>(out.data) + to * itemsize_bytes(out.dtype), out.dtype,
                 static_cast<const std::byte*>(in.data) + from * itemsize_bytes(in.dtype), in.dtype);
    for (int axis = out.ndim() - 1; axis >= 0; --axis) {
      if (++coordinates[static_cast<std::size_t>(axis)] < out.shape[axis]) break;
      coordinates[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

}  // namespace kiln::layout
