#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.hpp"
#include "ops/op_spec.hpp"

namespace kiln {

/// How a result compares with a reference, element by element.
struct Comparison {
  std::int64_t num_elements = 0;
  std::int64_t num_wrong = 0;
  double max_error = 0;  ///< largest |actual - expected| among finite pairs
  std::int64_t worst_index =
      -1;  ///< linear index of the element furthest outside the tolerance (or nearest its edge); -1 for no elements
  long double worst_actual = 0;
  long double worst_expected = 0;
  double worst_allowed = 0;  ///< the error allowed there
  bool ok() const noexcept { return num_wrong == 0; }
};

/// Right means |actual - expected| <= absolute + relative * |expected|, NaN for NaN, and the same infinity for an
/// infinity. Both tensors are dense, on the CPU, of one dtype and shape.
Comparison compare(const TensorView& actual, const TensorView& expected, Tolerance tolerance);

/// "[12, 7]" of a linear index.
std::string coordinates(std::int64_t index, const Dims& shape);

/// A number as its dtype prints it, with enough digits to tell neighbours apart.
std::string format_element(long double value, DType dtype);

}  // namespace kiln
