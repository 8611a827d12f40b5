#pragma once

#include "compiler/tl/number.hpp"

namespace kiln::tl {

/// Bits of an element, for what looks at nothing else.
template <int kBytes>
struct ElementBits;
template <>
struct ElementBits<1> {
  using type = uint8_t;
};
template <>
struct ElementBits<2> {
  using type = uint16_t;
};
template <>
struct ElementBits<4> {
  using type = uint32_t;
};
template <>
struct ElementBits<8> {
  using type = uint64_t;
};

}  // namespace kiln::tl
