#include "ops/common/random_shape.hpp"

#include <algorithm>

namespace kiln::common {

std::int64_t random_up_to(std::int64_t most, std::mt19937_64& random) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
}

std::int64_t random_extent(std::int64_t most, std::mt19937_64& random) {
  constexpr std::int64_t kExtents[] = {1,    2,    3,    4,    5,    7,    8,    12,   13,   15,    16,
                                       17,   31,   32,   33,   61,   63,   64,   65,   97,   100,   127,
                                       128,  129,  251,  255,  256,  257,  384,  509,  512,  768,   1000,
                                       1009, 1024, 1025, 2048, 2049, 2560, 4096, 4097, 5120, 10007, 30011};
  const auto end = std::upper_bound(std::begin(kExtents), std::end(kExtents), std::max<std::int64_t>(most, 1));
  return kExtents[random() % static_cast<std::size_t>(end - std::begin(kExtents))];
}

Dims random_shape(const ShapeBounds& bounds, std::mt19937_64& random) {
  int rank = std::max(bounds.least_rank, static_cast<int>(random_up_to(bounds.most_rank, random)));
  if (bounds.has_long_axis) rank = std::max(rank, 1);
  Dims shape;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(1);
  if (rank == 0) return shape;
  const int first = static_cast<int>(random_up_to(rank - 1, random));
  std::int64_t left = std::max<std::int64_t>(bounds.most_elements, 1);
  for (int i = 0; i < rank; ++i) {
    const bool is_long = bounds.has_long_axis && i == 0;
    // A few elements are left for the others.
    std::int64_t extent =
        is_long ? std::max<std::int64_t>(left / (1 + random_up_to(3, random)) - random_up_to(1, random), 1)
                : random_extent(left, random);
    left /= extent;
    if (bounds.may_be_empty && random() % 40 == 0) extent = 0;
    shape[(first + i) % rank] = extent;
  }
  return shape;
}

std::int64_t random_axis(int rank, std::mt19937_64& random) {
  const std::int64_t axes = std::max(rank, 1);
  return random_up_to(2 * axes - 1, random) - axes;
}

DType random_index_dtype(std::mt19937_64& random) {
  return random() % 2 == 0 ? DType::i64 : DType::i32;
}

}  // namespace kiln::common
