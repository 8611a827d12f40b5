#include "ops/kv_cache/rows_config.hpp"

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::kv_cache {
namespace {

/// Host memory beyond this is more than a GPU keeps translations of (about 8000 of 64 KiB each on an H200), so rows
/// that lie near one another are read together; with fewer pairs sorting costs more than it saves.
constexpr std::int64_t kScatteredBytes = std::int64_t{512} << 20, kLeastSortedPairs = 4096;
/// So many bytes, and a quarter or more of the host's rows: neighbours that share a line of the bus share its way, too.
constexpr std::int64_t kLeastDenseBytes = std::int64_t{32} << 20, kDenseShare = 4;
/// Host memory whose translations keep more SMs waiting.
constexpr std::int64_t kLargeBytes = std::int64_t{4} << 30;

bool sorting_pays(const RowsCall& call) {
  if (call.host == HostSide::none) return false;
  const std::int64_t bytes = call.iteration.pairs * call.iteration.row_bytes;
  return (call.host_bytes > kScatteredBytes && call.iteration.pairs >= kLeastSortedPairs) ||
         (bytes >= kLeastDenseBytes && bytes >= call.host_bytes / kDenseShare);
}

/// On the bus a few SMs ask for all it carries, and more would only be in the way of kernels beside this one. Narrow
/// packets and short rows ask for little at a time, so they take more.
std::int64_t sms_of(const RowsCall& call) {
  if (call.host == HostSide::none) return 264;
  if (packet_width(call) == 1) return 32;
  if (packet_width(call) == 4 || call.iteration.row_bytes < 128) return 8;
  return call.host_bytes > kLargeBytes && sorting_pays(call) ? 6 : 4;
}

}  // namespace

ConfigSpace warps_space() {
  return {{{"LANES", {8, 16, 4, 32}},
           {"ROWS_IN_FLIGHT", {1, 2, 4}},
           {"PACKETS", {6, 3, 1, 2, 4}},
           {"num_warps", {32, 16, 8}},
           {"SMS", {4, 3, 2, 1, 6, 8, 16, 32, 64, 132, 264, 528}},
           {"ALIGN_LANES", {1, 0}},
           {"LOAD_HINT", {0, 1}},
           {"SORT", {0, 1}}},
          {common::ConfigExpression("ROWS_IN_FLIGHT") * "PACKETS" <= 6}};  // more registers than threads have
}

Config warps_default(const RowsCall& call) {
  const std::int64_t row_bytes = call.iteration.row_bytes;
  // Rows that are a line or an even part of it have one packet each to ask for; those that straddle two have two.
  std::int64_t rows = 1, packets = 6;
  if (row_bytes <= 128 && row_bytes == ceil_power_of_two(row_bytes)) {
    rows = 4;
    packets = 1;
  } else if (row_bytes <= 384) {
    rows = 2;
    packets = 3;
  }
  // Device memory is read by all SMs, in small blocks, unless SMs are counted.
  const bool in_small_blocks = call.host == HostSide::none && call.max_sms == 0;
  return {{"LANES", row_bytes <= 32 ? 4 : 8},
          {"ROWS_IN_FLIGHT", rows},
          {"PACKETS", packets},
          {"num_warps", in_small_blocks ? 8 : 32},
          {"SMS", sms_of(call)},
          {"ALIGN_LANES", 1},
          {"LOAD_HINT", 0},
          {"SORT", sorting_pays(call) ? 1 : 0}};
}

std::int64_t packet_width(const RowsCall& call) {
  return call.alignment_bytes == 16 ? 16 : call.alignment_bytes >= 4 ? 4 : 1;
}

}  // namespace kiln::kv_cache
