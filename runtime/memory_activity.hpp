#pragma once

#include <chrono>
#include <cstdint>

namespace kiln {

/// One copy or set of memory that a GPU made by itself, rather than in a kernel.
struct MemoryActivity {
  enum class Place { unknown, pageable, pinned, device, managed };

  bool is_set = false;            ///< of bytes to one value
  Place from = Place::unknown;    ///< of a copy
  Place to = Place::unknown;      ///< of a copy
  std::int32_t device_index = 0;  ///< whose engines made it
  std::int64_t bytes = 0;
  std::chrono::steady_clock::time_point start{}, end{};
};

}  // namespace kiln
