#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/dtype.hpp"

namespace kiln {

/// Most tensor maps of one kernel.
inline constexpr int kMaxTensorMaps = 8;
inline constexpr int kMaxTensorMapRank = 5;
/// What the address of a tensor map must be a multiple of. Plans are keyed by whether a tensor's data is.
inline constexpr std::int64_t kTensorMapAlignmentBytes = 16;

/// The span within which chunks of 16 bytes change places in shared memory, by the number of their row.
enum class TensorMapSwizzle : std::uint8_t { none, b32, b64, b128 };
/// How much the L2 cache fetches from memory at a time.
enum class TensorMapPromotion : std::uint8_t { none, b64, b128, b256 };

/// What a tensor map (TMA descriptor) of a tiled tensor says, but for the address: boxes of `box` elements move between
/// memory and shared memory, and elements outside the tensor read as zeros and are not written. Dimension 0 is the
/// innermost, whose elements lie next to one another. Element strides of 1, no interleaving. Needs sm_90 or newer.
struct TensorMap {
  int tensor_index = 0;           ///< of the call, outputs first
  int workspace_index = -1;       ///< 0 or more: over that workspace of the plan, and `tensor_index` means nothing
  std::int64_t offset_bytes = 0;  ///< from the tensor's data to the map's first element
  /// Fills with zeros and moves bits, so the unsigned integer of the same size serves as well.
  DType dtype = DType::u8;
  /// Boxes read of f32 are rounded to tf32 (to nearest) on their way; otherwise a tf32 matrix product cuts the bits
  /// off.
  bool rounds_to_tf32 = false;
  int rank = 0;
  std::array<std::int64_t, kMaxTensorMapRank> extents{};            ///< in elements
  std::array<std::int64_t, kMaxTensorMapRank - 1> strides_bytes{};  ///< of dimensions 1 and up
  std::array<std::int32_t, kMaxTensorMapRank> box{};                ///< in elements
  TensorMapSwizzle swizzle = TensorMapSwizzle::none;
  TensorMapPromotion l2_promotion = TensorMapPromotion::none;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// Which limit of the hardware the map breaks, in words that name field, value and limit; empty when it keeps them all.
/// A variant that uses the map may ask here whether it serves a call. Limits: CUDA driver API, cuTensorMapEncodeTiled.
std::string tensor_map_problem(const TensorMap& map);

/// Whether a map with an `offset_bytes` of whole 16 bytes can start at `data`; a null pointer, which stands for memory
/// that is not there yet, can.
inline bool takes_tensor_map(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(kTensorMapAlignmentBytes) == 0;
}

}  // namespace kiln
