#pragma once

#include <cstdint>

namespace kiln {

/// Stack that a CPU kernel may take, all of its functions together. Workers have 4 MiB; half of that is for
/// what runs around the kernel, and for the C library's functions that it calls.
inline constexpr std::int64_t kMostCpuKernelStackBytes = std::int64_t{2} << 20;

}  // namespace kiln
