#pragma once

namespace kiln {

/// What a build says of a target that was left out of it.
inline constexpr const char* kNoCudaTarget =
    "this Kiln was built without the NVIDIA target; rebuild with -DKILN_CUDA=ON (needs the CUDA toolkit's headers)";
inline constexpr const char* kNoCpuTarget =
    "this Kiln was built with -DKILN_CPU=OFF; rebuild with -DKILN_CPU=ON (needs LLVM and Clang 19)";

}  // namespace kiln
