#include "ops/attention/block_order.hpp"

#include <algorithm>

namespace kiln::attention {
namespace {

/// 64 MiB of keys and values of 16,384 tokens and 128 numbers of 16 bits where each head has its own.
constexpr std::int64_t kMostTogether = 16;

}  // namespace

std::int64_t heads_together(const ops::AttentionForm& form, std::int64_t heads, const Target& target) {
  if (target.type != DeviceType::cuda || !form.has_high) return 1;
  std::int64_t together = std::min(heads, 2 * kMostTogether);
  if (together == heads) return heads;
  for (together = kMostTogether; heads % together != 0;) --together;
  return together;
}

}  // namespace kiln::attention
