#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int32_t index = 0;  ///< CUDA ordinal; 0 for the CPU

  static constexpr Device cpu() noexcept { return {DeviceType::cpu, 0}; }
  static constexpr Device cuda(std::int32_t ordinal = 0) noexcept { return {DeviceType::cuda, ordinal}; }
  bool is_cuda() const noexcept { return type == DeviceType::cuda; }
  auto operator<=>(const Device&) const = default;
};

/// "cpu", "cuda:1".
std::string to_string(Device device);
/// Accepts "cpu", "cuda", "cuda:N"; UsageError(value) otherwise.
Device parse_device(std::string_view text);

}  // namespace kiln
