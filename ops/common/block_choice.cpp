#include "ops/common/block_choice.hpp"

#include <algorithm>

#include "ops/common/grid.hpp"

namespace kiln::common {

std::int64_t block_over(std::int64_t extent, const BlockBounds& bounds) {
  constexpr double kFullEnough = 0.9;
  const std::int64_t widest = std::min(ceil_power_of_two(extent), bounds.most);
  std::int64_t best = widest;
  double best_full = 0;
  for (std::int64_t block = widest; block >= std::min(widest, bounds.least); block /= 2) {
    const double full = static_cast<double>(extent) / static_cast<double>(ceil_div(extent, block) * block);
    if (full >= kFullEnough) return block;
    if (full > best_full || (full == best_full && bounds.of_equals == EqualBlocks::narrower)) {
      best = block;
      best_full = full;
    }
  }
  return best;
}

std::int64_t elements_of_few_programs(std::int64_t numel, std::int64_t most) {
  constexpr std::int64_t kLeast = 128, kEnoughPrograms = 96;
  while (most > kLeast && numel < kEnoughPrograms * most) most /= 2;
  return most;
}

}  // namespace kiln::common
