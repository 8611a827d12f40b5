#pragma once

#include <cstdint>

#include "core/target.hpp"

namespace kiln::common {

// What choices for a CPU's programs are made from.

/// Bytes of a line of the caches.
inline constexpr std::int64_t kLineBytes = 64;

/// Bytes that a tile sends past the caches at a time: an add of 100 MB takes 1.67 ms with lines by fours, 1.85 to 2.25
/// by eights and 2.4 by sixteens, beside 2.33 with plain stores (Zen 5; one thread).
inline constexpr std::int64_t kStreamedBytes = 256;

/// Bytes of the target's widest vector registers.
std::int64_t vector_register_bytes(const Target& target);

/// Whether a call that moves so many bytes leaves little of its output in this machine's caches, so that the output
/// goes past them.
bool outgrows_caches(double bytes);
/// Whether a call that reads so many bytes finds them in this machine's caches where it has read or written them
/// before.
bool stays_in_caches(double bytes);

/// Rows and columns of a program that goes through them tile by tile.
struct ProgramExtents {
  std::int64_t rows, columns;
};

/// Extents of programs over `rows` rows of `columns` elements in tiles of so many: enough elements that what a program
/// costs is nothing beside them, few enough that a program's part of a few rows stays in the first caches, and rows as
/// long as that allows.
ProgramExtents program_extents(std::int64_t rows, std::int64_t columns, const ProgramExtents& tile);

}  // namespace kiln::common
