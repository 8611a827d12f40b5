#pragma once

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace kiln {

/// The standard leaves open which numbers its distributions and std::shuffle draw; a seed should mean the same
/// everywhere. The bias of the remainder does not matter at these sizes.
inline std::size_t random_below(std::mt19937_64& random, std::size_t limit) {
  return random() % limit;
}

template <typename T>
void shuffle(std::vector<T>& items, std::mt19937_64& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random_below(random, i)]);
}

}  // namespace kiln
