#pragma once

#include <atomic>
#include <cstdint>

namespace kiln {

/// What a compile looks at while it runs. Crosses into libkiln-clang.so.
struct CompileBounds {
  /// Most bytes that Clang's own memory may take.
  std::int64_t memory_bytes = 0;
  /// Whoever wanted the compile has gone: it should end as soon as it can.
  std::atomic<bool> is_abandoned = false;
};

}  // namespace kiln
