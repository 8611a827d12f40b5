#pragma once

#include <cstdint>
#include <span>

#include "ops/common/call_parser.hpp"
#include "ops/common/strided_walk.hpp"
#include "ops/elementwise/op_table.hpp"
#include "ops/elementwise/promotion.hpp"

namespace kiln::elementwise {

/// One call of an op of the family, taken apart.
struct ElementwiseCall {
  const OpRow* row = nullptr;
  TensorView output;
  std::span<const TensorView> inputs;  ///< that the kernel reads
  bool has_scalar_right = false;       ///< the second operand is the attribute `other`
  ElementwiseTypes types;
  const Form* form = nullptr;
  ops::Scalars scalars;
  common::StridedWalk walk;
  std::int64_t vector_width = 1;       ///< elements of the widest operand in 16 bytes
  std::int64_t bytes_per_element = 0;  ///< of all operands
  double stored_bytes = 0;             ///< of all operands: what is broadcast counts once
};
using ElementwiseParser = common::CallParser<ElementwiseCall>;

/// UsageError as resolve_types and strided_walk. `row` must outlive what it returns.
ElementwiseCall elementwise_call(const OpRow& row, const OpCall& call);

/// The inputs the kernel reads: none of fill's.
std::span<const TensorView> kernel_inputs(const OpRow& row, std::span<const TensorView> inputs);

}  // namespace kiln::elementwise
