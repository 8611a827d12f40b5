#pragma once

#include <cstdint>

#include "core/target.hpp"

namespace kiln::attention {

/// What the number of parts that requests' keys are taken in follows from: shapes alone, since lengths are on the
/// device.
struct SplitDemand {
  std::int64_t programs = 0;       ///< of one part
  std::int64_t most_tokens = 0;    ///< of a request
  std::int64_t block_keys = 0;     ///< of a step
  double token_bytes = 0;          ///< that a program reads of each token
  std::int64_t requested = 0;      ///< as the call says; 0: chosen
  std::int64_t processors = 0;     ///< 0: unknown
  std::int64_t programs_each = 1;  ///< that a GPU's multiprocessor runs at a time
};

/// Microseconds that the call takes on a GPU with its keys in so many parts.
///
/// Memory's rate bounds it: a turn of as many programs as the GPU runs at a time takes what their tokens take, and what
/// begins and ends a program. Few programs are held up by latency. Requests may be alike, or anything up to what the
/// table has room for: both count. Constants are those of an H200 (benchmarks/gpu_attention.py).
double split_us(const SplitDemand& demand, std::int64_t splits);

/// As the call says; else for a GPU what takes the least time, and for a CPU what leaves the least of its threads
/// without work.
std::int64_t num_splits(const SplitDemand& demand, const Target& target);

}  // namespace kiln::attention
