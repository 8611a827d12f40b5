#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/attributes.hpp"
#include "core/tensor.hpp"

namespace kiln::reduction {

/// What is computed of the elements that meet in one output.
enum class Kind { sum, mean, prod, amax, amin, max, min, argmax, argmin, any, all, var, std, norm, logsumexp };

/// The op's own names and defaults; the rest follows from the kind.
struct OpRow {
  std::string name;
  Kind kind;
  std::string doc;
};
const std::vector<OpRow>& op_table();

/// Whether an element's place is part of the result: the reduced dimensions are then one, or all in their order.
bool finds_index(Kind kind) noexcept;
/// Whether the result holds the element's value beside its place (max and min of one dimension).
bool has_index_output(Kind kind, const Attributes& attributes);
/// Whether the attribute `dtype` exists.
bool takes_dtype(Kind kind) noexcept;

/// One call, resolved: attributes have their defaults.
struct Reduction {
  Kind kind = Kind::sum;
  std::vector<int> axes;   ///< reduced, ascending
  std::int64_t count = 1;  ///< elements per output
  DType via = DType::f32;  ///< elements are cast to it first
  DType accumulator = DType::f32;
  DType out = DType::f32;   ///< of the values
  bool with_index = false;  ///< a second output holds places
  double exponent = 0;      ///< norm's p
  double divisor = 0;       ///< mean's count, var's count less correction
};
/// UsageError for bad axes, dtypes, and reductions that have no value: an extremum of nothing.
Reduction resolve(const OpRow& row, const TensorView& input, const Attributes& attributes);

/// The outputs' shape.
Dims output_shape(const TensorView& input, std::span<const int> axes, bool keepdim);

}  // namespace kiln::reduction
