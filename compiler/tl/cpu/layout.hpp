#pragma once

#include "compiler/tl/shape.hpp"

namespace kiln::tl {

/// All elements, row-major, in the one thread.
template <typename ShapeT>
struct Dense {
  static constexpr int kRegisters = ShapeT::kNumel;
  KILN_DEVICE static constexpr int row(int r) { return r / ShapeT::kColumns; }
  KILN_DEVICE static constexpr int column(int r) { return r % ShapeT::kColumns; }
  KILN_DEVICE static constexpr bool owns(int) { return true; }
};

template <typename ShapeT>
using DefaultLayout = Dense<ShapeT>;

}  // namespace kiln::tl
