#pragma once

#include <cstdint>

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// Shared memory that a program may have on sm_90; a multiprocessor has a KiB more.
inline constexpr std::int64_t kSm90SharedBytes = 227 * 1024;

/// An H200's, in whose clocks the models count, and on which their constants were measured.
inline constexpr double kClocksPerUs = 1755;

/// What the models and the constraints of the family know of a GPU.
struct Machine {
  std::int64_t processors;    ///< of the architecture's largest part
  std::int64_t shared_bytes;  ///< a program may have, and a multiprocessor has a KiB more
};
Machine machine_of(const Target& target);

/// Processors that a call may use: all of its device, or where that is not known of its architecture's largest part,
/// and no more than the attribute num_sms says.
std::int64_t usable_processors(const MatmulCall& call, const Target& target);
/// Of these, on which clusters of more than two blocks, one on each, run at a time: those of eight, which those of four
/// reach too.
std::int64_t usable_in_clusters(const MatmulCall& call, const Target& target);

}  // namespace kiln::matmul
