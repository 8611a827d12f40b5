#include "core/tensor_map.hpp"

#include <fmt/format.h>

namespace kiln {
namespace {

constexpr std::int64_t kMaxExtent = (std::int64_t{1} << 32) - 1;
constexpr std::int64_t kMaxStrideBytes = (std::int64_t{1} << 40) - 1;
constexpr std::int32_t kMaxBoxExtent = 256;
constexpr std::int64_t kMaxSwizzledBytes[] = {kMaxBoxExtent * 8, 32, 64, 128};

}  // namespace

std::string tensor_map_problem(const TensorMap& map) {
  if (map.rank < 1 || map.rank > kMaxTensorMapRank)
    return fmt::format("rank is {}; it is 1 to {}", map.rank, kMaxTensorMapRank);
  if (map.offset_bytes % kTensorMapAlignmentBytes != 0)
    return fmt::format("offset_bytes is {}, which is no multiple of {}", map.offset_bytes, kTensorMapAlignmentBytes);
  if (map.rounds_to_tf32 && map.dtype != DType::f32)
    return fmt::format("rounds_to_tf32 is set for elements of {}; only f32 is rounded to tf32", name(map.dtype));
  for (std::size_t i = 0; i < static_cast<std::size_t>(map.rank); ++i) {
    if (map.extents[i] < 1 || map.extents[i] > kMaxExtent)
      return fmt::format("extents[{}] is {}; it is 1 to {}", i, map.extents[i], kMaxExtent);
    if (map.box[i] < 1 || map.box[i] > kMaxBoxExtent)
      return fmt::format("box[{}] is {}; it is 1 to {}", i, map.box[i], kMaxBoxExtent);
    if (i == 0) continue;
    const std::int64_t stride_bytes = map.strides_bytes[i - 1];
    if (stride_bytes < 0 || stride_bytes > kMaxStrideBytes || stride_bytes % kTensorMapAlignmentBytes != 0)
      return fmt::format("strides_bytes[{}], the stride of dimension {}, is {}; it is a multiple of {} from 0 to {}",
                         i - 1, i, stride_bytes, kTensorMapAlignmentBytes, kMaxStrideBytes);
  }
  const std::int64_t inner_bytes = map.box[0] * itemsize_bytes(map.dtype);
  if (inner_bytes % kTensorMapAlignmentBytes != 0)
    return fmt::format("box[0] is {} elements of {} bytes, {} bytes in all, which is no multiple of {}", map.box[0],
                       itemsize_bytes(map.dtype), inner_bytes, kTensorMapAlignmentBytes);
  if (const std::int64_t limit_bytes = kMaxSwizzledBytes[static_cast<int>(map.swizzle)]; inner_bytes > limit_bytes)
    return fmt::format("box[0] is {} elements of {} bytes, {} bytes in all; swizzle b{} takes at most {}", map.box[0],
                       itemsize_bytes(map.dtype), inner_bytes, limit_bytes, limit_bytes);
  return {};
}

}  // namespace kiln
