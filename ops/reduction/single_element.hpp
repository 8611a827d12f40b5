#pragma once

#include "ops/op_spec.hpp"
#include "ops/reduction/reduction.hpp"

namespace kiln::reduction {

/// Whether a reduction of one element each may be that element, as it is.
bool may_be_the_element(Kind kind) noexcept;

/// The variant for such reductions: a copy, which is transposed by tiles where the kept dimensions lie in another order
/// in the output. The tiled kernel takes a dimension of extent 1 for a short one (one of 2560x4096 that lay the other
/// way round took 175 us on an H200, a copy 40). `row` must outlive it.
Variant single_element_variant(const OpRow& row);

}  // namespace kiln::reduction
