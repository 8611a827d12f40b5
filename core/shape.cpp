#include "core/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse_rank(std::size_t rank) {
  throw_value_error(fmt::format("{} dimensions are too many: a tensor has at most {}", rank, kMaxRank));
}

[[noreturn]] void refuse_overflow(const Dims& shape) {
  throw_value_error(fmt::format("shape {} has more elements than a 64-bit integer can count", to_string(shape)));
}

void check_extents(const Dims& shape) {
  for (int axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] < 0)
      throw_value_error(fmt::format("shape {} has the negative extent {} along axis {}; extents must be 0 or more",
                                    to_string(shape), shape[axis], axis));
}

/// The extent of `shape` along an axis of a result of `rank` dimensions; axes missing on the left are 1.
std::int64_t aligned_extent(const Dims& shape, int axis, int rank) {
  const int own_axis = axis - (rank - shape.size());
  return own_axis < 0 ? 1 : shape[own_axis];
}

}  // namespace

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > static_cast<std::size_t>(kMaxRank)) refuse_rank(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
  size_ = static_cast<std::int32_t>(values.size());
}

void Dims::refuse_one_more() {
  refuse_rank(static_cast<std::size_t>(kMaxRank) + 1);
}

std::int64_t num_elements(const Dims& shape) {
  check_extents(shape);
  // A zero anywhere makes the tensor empty, whatever the product of the other extents.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (std::int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count)) refuse_overflow(shape);
  return count;
}

Dims contiguous_strides(const Dims& shape) {
  check_extents(shape);
  Dims strides = shape;
  std::int64_t stride = 1;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    // torch's convention: an empty axis counts as 1, so strides never become 0.
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(shape[axis], 1), &stride)) refuse_overflow(shape);
  }
  return strides;
}

Dims broadcast_shapes(std::span<const Dims> shapes) {
  int rank = 0;
  for (const Dims& shape : shapes) {
    check_extents(shape);
    rank = std::max(rank, shape.size());
  }
  Dims result;
  for (int axis = 0; axis < rank; ++axis) {
    const Dims* decisive = nullptr;  // the first shape whose extent here is not 1
    std::int64_t extent = 1;
    for (const Dims& shape : shapes) {
      const std::int64_t own = aligned_extent(shape, axis, rank);
      if (own == 1 || own == extent) continue;
      if (decisive != nullptr)
        throw_value_error(fmt::format(
            "shapes {} and {} do not broadcast: along axis {} they have {} and {}, which must be equal or 1",
            to_string(*decisive), to_string(shape), axis - rank, extent, own));
      decisive = &shape;
      extent = own;
    }
    result.push_back(extent);
  }
  return result;
}

std::string to_string(const Dims& dims) {
  return fmt::format("({})", fmt::join(dims.begin(), dims.end(), ", "));
}

}  // namespace kiln
