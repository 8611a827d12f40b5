#pragma once

#include "compiler/tl/number.hpp"

namespace kiln::tl {

/// The 16 bytes that start `past` bytes, a multiple of an element's kElementBytes, after the first of the 32 that are
/// given.
template <int kElementBytes>
KILN_DEVICE uint4 straddled(const uint4& low, const uint4& high, int past) {
  unsigned int words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  KILN_UNROLL for (int i = 0; i < 6; ++i) words[i] = past & 8 ? words[i + 2] : words[i];
  if constexpr (kElementBytes < 8)
    KILN_UNROLL for (int i = 0; i < 5; ++i) words[i] = past & 4 ? words[i + 1] : words[i];
  if constexpr (kElementBytes < 4)
    KILN_UNROLL for (int i = 0; i < 4; ++i) words[i] =
        __funnelshift_r(words[i], words[i + 1], 8 * (static_cast<unsigned int>(past) & 3));
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace kiln::tl
