#pragma once

#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {

// What the kernel for GPUs (rows_launch_warps.cpp) is tuned by.

ConfigSpace warps_space();
/// What was best, or within a few percent of it, for rows of 16 to 4096 bytes on an H200.
Config warps_default(const RowsCall& call);
/// Bytes of the packets that the kernel's WIDTH names.
std::int64_t packet_width(const RowsCall& call);

}  // namespace kiln::kv_cache
