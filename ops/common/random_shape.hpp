#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <span>

#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace kiln::common {

// What random calls of ops are drawn from (OpSpec::random_example).

/// What random_shape is bound by.
struct ShapeBounds {
  int least_rank = 0;
  int most_rank = 5;
  std::int64_t most_elements = 40'000;
  bool may_be_empty = true;    ///< an extent is 0 now and then
  bool has_long_axis = false;  ///< one axis takes all that the others leave of most_elements, or nearly so
};

/// A number from 0 to `most`.
std::int64_t random_up_to(std::int64_t most, std::mt19937_64& random);
/// 1 to `most`: a small number, a power of two, a prime, or a neighbour of one.
std::int64_t random_extent(std::int64_t most, std::mt19937_64& random);
/// Axes take their extents in a random order, so that each is the long one at times.
Dims random_shape(const ShapeBounds& bounds, std::mt19937_64& random);
/// An axis of a tensor of `rank` dimensions, counted from either end. One without dimensions has axis 0.
std::int64_t random_axis(int rank, std::mt19937_64& random);

/// One of `choices`: an array, a vector, a span.
template <typename Choices>
auto one_of(const Choices& choices, std::mt19937_64& random) {
  return std::begin(choices)[static_cast<std::ptrdiff_t>(random() % std::size(choices))];
}
/// i64 or i32.
DType random_index_dtype(std::mt19937_64& random);

}  // namespace kiln::common
