#pragma once

#include <cstdint>

namespace kiln::common {

/// Which of two blocks that are equally full serves better.
enum class EqualBlocks : std::uint8_t { wider, narrower };

struct BlockBounds {
  std::int64_t least = 1;  ///< gives way to a shorter extent
  std::int64_t most = 1;   ///< a power of two
  EqualBlocks of_equals = EqualBlocks::wider;
};

/// The extent of blocks over `extent` elements: the widest power of two within the bounds whose blocks are at least
/// nine tenths full, else the one whose blocks are fullest. Narrower ones waste more in short accesses than they save.
std::int64_t block_over(std::int64_t extent, const BlockBounds& bounds);

}  // namespace kiln::common
