#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "core/device.hpp"

namespace kiln {

/// What code is generated for. CUDA: arch "sm_90a". CPU: arch is the CPU's name ("znver5"), features LLVM's sorted
/// feature string
/// ("+avx2,+avx512f,...").
struct Target {
  DeviceType type = DeviceType::cpu;
  std::string arch;
  std::string features;

  auto operator<=>(const Target&) const = default;
};

/// "cuda:sm_90a", "cpu:znver5" (features are left out: they are long).
std::string to_string(const Target& target);
/// "sm_80", "sm_90a", "cuda:sm_100a"; UsageError(value) otherwise. For compiling with no GPU.
Target parse_cuda_target(std::string_view text);
/// sm_XX of a compute capability; the 'a' form (architecture-specific features) from 9.0 on.
Target cuda_target(int major, int minor);

}  // namespace kiln
