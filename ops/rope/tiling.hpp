#pragma once

#include <cstdint>

#include "ops/op_spec.hpp"
#include "ops/rope/call.hpp"

namespace kiln::rope {

/// Numbers of a CPU's program: tens of microseconds, beside which finding out how fast pairs turn is nothing.
inline constexpr std::int64_t kProgramElements = 65536;
/// Programs for each multiprocessor below which heads are dealt to more of them.
inline constexpr std::int64_t kBusyPrograms = 4;

/// `HEADS` of a program, at most, of which `IN_FLIGHT` are read before the first is written. On a CPU it goes through
/// `TOKENS` by `BLOCK_T`; on a GPU it has as many as num_warps make.
ConfigSpace rope_space(const Target& target);
Config default_tiling(const RopeCall& call, const Target& target);

/// Numbers that a thread of a GPU moves at a time: 16 bytes.
std::int64_t thread_elements(DType dtype);
/// Rows of a GPU's tile: as many as its threads have 16 bytes each for, so that they read and write it in one access
/// and a pair is with one of them.
std::int64_t tile_rows(const ops::RopeForm& form, DType dtype, std::int64_t num_warps);
/// Tokens of a tile.
std::int64_t tile_tokens(const RopeCall& call, const Config& config, const Target& target);

}  // namespace kiln::rope
