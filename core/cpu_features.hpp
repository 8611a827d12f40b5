#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace kiln {

// What Target::features of a CPU says. Inline: libkiln-clang.so asks too, and does not link core/.

/// Whether a list of features holds `wanted` ("+avx2").
inline bool has_feature(std::string_view features, std::string_view wanted) {
  for (std::size_t start = 0; start < features.size();) {
    const std::size_t end = std::min(features.find(',', start), features.size());
    if (features.substr(start, end - start) == wanted) return true;
    start = end + 1;
  }
  return false;
}

/// Bytes of the widest vector registers that the features offer: 64 with AVX-512, 32 with AVX, else 16.
inline int cpu_vector_bytes(std::string_view features) {
  return has_feature(features, "+avx512f") ? 64 : has_feature(features, "+avx") ? 32 : 16;
}

}  // namespace kiln
