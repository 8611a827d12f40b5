#pragma once

#include <cstdint>

#include "ops/estimated_config.hpp"
#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// Elements that a thread of the kernel for few rows accesses at once: a packet where the lines of b, and those of a
/// that it reads beside them, start at packets, else one: a program whose lines do not would take all of its tiles as
/// those that reach over an end.
std::int64_t rows_vector_width(const MatmulCall& call);

/// b's tiles run along k where its rows are contiguous, along n where its columns are.
bool runs_along_k(const MatmulCall& call);

/// BLOCK_N, BLOCK_K, UNROLL, SPLIT_K and num_warps for a GPU. is_wide: of f64.
ConfigSpace rows_space(bool is_wide);

/// The config of the space of the least estimated time.
EstimatedConfig rows_default(const MatmulCall& call, const Target& target);

}  // namespace kiln::matmul
