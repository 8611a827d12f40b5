#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/attributes.hpp"
#include "core/tensor.hpp"

namespace kiln::layout {

// What each op of the family says about its call; all throw UsageError naming the op, the attribute or input and what
// was expected.

/// x with its dimensions in the order that the attributes ask for.
TensorView transposed(const TensorView& x, const Attributes& attributes);
TensorView permuted(const TensorView& x, const Attributes& attributes);
/// The attribute `dtype` of copy, the input's own where it is None.
DType copied_dtype(const TensorView& x, const Attributes& attributes);

/// What concat makes of its inputs.
struct Concatenation {
  Dims shape;
  int axis = 0;
  std::vector<std::int64_t> starts;  ///< along `axis`, input by input
};
Concatenation concatenated(std::span<const TensorView> inputs, const Attributes& attributes);
/// Input `index`'s part of the output, and how many elements lie between the output's first element and its own.
struct Slice {
  TensorView view;  ///< its data pointer is the output's
  std::int64_t offset = 0;
};
Slice slice_of(const TensorView& output, const TensorView& input, const Concatenation& parts, std::size_t index);

}  // namespace kiln::layout
