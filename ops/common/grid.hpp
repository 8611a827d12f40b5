#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "core/target.hpp"

namespace kiln {

// What choosing blocks and counting programs takes.

inline bool is_cuda(const Target& target) {
  return target.type == DeviceType::cuda;
}

/// Blocks of b that cover a.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The least power of two that is no less than `value`; 1 for anything below.
inline std::int64_t ceil_power_of_two(std::int64_t value) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 1))));
}

/// The largest power of two that is no more than `value`; 1 for anything below.
inline std::int64_t floor_power_of_two(std::int64_t value) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 1))));
}

/// Most programs along axis 0 of a GPU's grid, and along the others.
inline constexpr std::int64_t kMostGridPrograms = 2147483647, kMostGridExtent = 65535;

/// A GPU's multiprocessors, those of an H200 where they are not known (0).
inline std::int64_t known_processors(std::int64_t processors) {
  return processors > 0 ? processors : 132;
}

/// UsageError(value) for more programs than axis 0 of a GPU's grid holds.
void check_grid(std::string_view op, std::int64_t programs, const Target& target);

}  // namespace kiln
