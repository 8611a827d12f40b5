#include "ops/kv_cache/paged_tiling.hpp"

#include <algorithm>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::kv_cache {
namespace {

/// What a program of the portable kernels moves, so that starting it is not the limit.
constexpr std::int64_t kProgramBytes = 8192;

/// Programs that fill a large GPU; with fewer packets than that takes, each moves less.
constexpr std::int64_t kPlentyOfPrograms = 1024;

}  // namespace

ConfigSpace packets_space() {
  return {{{"IN_FLIGHT", {4, 2, 8, 1}}, {"num_warps", {8, 4, 16, 32, 2, 1}}},
          {common::ConfigExpression("IN_FLIGHT") * "num_warps" <= 128}};
}

Config packets_default_for(std::int64_t packets) {
  std::int64_t in_flight = 4;
  while (in_flight > 1 && packets < kPlentyOfPrograms * 256 * in_flight) in_flight /= 2;
  return {{"IN_FLIGHT", in_flight}, {"num_warps", 8}};
}

bool counts_in_32_bits(std::int64_t count) {
  // Half of what 32 bits hold: a batch behind the last packet is counted too.
  return count < std::int64_t{1} << 31;
}

std::int64_t batch_packets(const Config& config) {
  return 32 * config.at("num_warps") * config.at("IN_FLIGHT");
}

std::int64_t packet_bytes(std::int64_t itemsize_bytes, std::span<const std::int64_t> multiples_bytes) {
  std::int64_t bytes = 16;
  for (const std::int64_t multiple : multiples_bytes)
    while (bytes > itemsize_bytes && multiple % bytes != 0) bytes /= 2;
  return bytes;
}

TemplateArgument packet_type(std::int64_t bytes) {
  if (bytes == 16) return TypeName{"uint4"};
  return unsigned_dtype(bytes);
}

ConfigSpace rows_space(const Target& target) {
  const std::vector<std::int64_t> rows = {8, 1, 2, 4, 16, 32, 64}, bytes = {1024, 512, 256, 128, 64, 32, 16};
  if (!is_cuda(target)) return {{{"ROWS", rows}, {"BLOCK_BYTES", bytes}}, {}};
  return {{{"ROWS", rows}, {"BLOCK_BYTES", {512, 256, 1024, 2048}}, {"num_warps", {1, 2, 4}}}, {}};
}

Config rows_default(std::int64_t row_bytes, std::int64_t heads, const Target& target) {
  const std::int64_t rows =
      floor_power_of_two(std::clamp<std::int64_t>(kProgramBytes / std::max<std::int64_t>(row_bytes * heads, 1), 1, 64));
  const std::int64_t wide = ceil_power_of_two(row_bytes);
  if (!is_cuda(target)) return {{"ROWS", rows}, {"BLOCK_BYTES", std::clamp<std::int64_t>(wide, 16, 1024)}};
  const std::int64_t block_bytes = std::clamp<std::int64_t>(wide, 256, 2048);
  return {
      {"ROWS", rows}, {"BLOCK_BYTES", block_bytes}, {"num_warps", std::clamp<std::int64_t>(block_bytes / 512, 1, 4)}};
}

}  // namespace kiln::kv_cache
