#include "ops/common/cpu_choice.hpp"

#include <algorithm>
#include <string_view>

#include "core/host_cpu.hpp"
#include "ops/common/grid.hpp"

namespace kiln::common {
namespace {

/// Elements of a program: 2 to 10 us.
constexpr std::int64_t kProgramElements = 8192;
/// Of a tile that is long both ways, which takes a page of memory or more for each row: rows of as many elements.
constexpr std::int64_t kSquareColumns = 64;
/// What is believed of the size of a last level of cache: virtual machines report some that are wrong by ten.
constexpr std::int64_t kLeastLastLevelBytes = std::int64_t{8} << 20, kMostLastLevelBytes = std::int64_t{64} << 20;
/// Last levels of cache that a repeated call moves before it is as fast with its output past them, also for a call that
/// reads the output next (Zen 4, 32 MB: maximum of 36 MB in all takes 1.0 ms so and 1.6 without on one thread, 0.27 and
/// 0.53 on two, and with neg and sum of it behind 2.4 and 3.1, 1.7 and 2.2; of 24 MB 0.4 and 0.7, 0.3 and 0.24).
constexpr double kOutgrownCaches = 1;
/// Of the last level, which others use too, what a call's input may take of it.
constexpr double kInputsShare = 0.3;

double last_level_bytes() {
  return static_cast<double>(std::clamp(host_last_level_cache_bytes(), kLeastLastLevelBytes, kMostLastLevelBytes));
}

}  // namespace

std::int64_t vector_register_bytes(const Target& target) {
  const std::string_view features = target.features;
  if (features.find("+avx512f") != std::string_view::npos) return 64;
  return features.find("+avx") != std::string_view::npos ? 32 : 16;
}

bool outgrows_caches(double bytes) {
  return bytes >= kOutgrownCaches * last_level_bytes();
}

bool stays_in_caches(double bytes) {
  return bytes <= kInputsShare * last_level_bytes();
}

ProgramExtents program_extents(std::int64_t rows, std::int64_t columns, const ProgramExtents& tile) {
  const std::int64_t most_columns = tile.rows == 1 ? kProgramElements : std::max(tile.columns, kSquareColumns);
  const std::int64_t covered = ceil_div(std::max<std::int64_t>(columns, 1), tile.columns) * tile.columns;
  const std::int64_t wide = std::min(covered, most_columns);
  const std::int64_t tall = ceil_div(kProgramElements / wide, tile.rows) * tile.rows;
  return {std::clamp(tall, tile.rows, ceil_div(std::max<std::int64_t>(rows, 1), tile.rows) * tile.rows), wide};
}

}  // namespace kiln::common
