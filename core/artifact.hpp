#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/box_map.hpp"
#include "core/target.hpp"

namespace kiln {

enum class ArtifactKind : std::uint8_t {
  cubin,   ///< machine code for one sm_XX
  ptx,     ///< for a driver older than the compiler's cubin format
  object,  ///< relocatable ELF for the CPU
};

/// What a compiler made of one kernel instance. Serialised as it stands into the artifact cache.
struct Artifact {
  ArtifactKind kind = ArtifactKind::object;
  Target target;
  std::string entry;  ///< symbol to call
  std::string name;   ///< for people: "elementwise_kernel<Add, float, ...>"
  std::vector<std::byte> code;
  std::int64_t compile_time_us = 0;
  bool takes_dynamic_shared = false;      ///< uses shared memory of a size that its launch states; never on the CPU
  std::int32_t dynamic_shared_bytes = 0;  ///< the least of it that a launch must give; 0: none, or not known
  std::vector<BoxLoad> box_loads;         ///< what Kernel::take_box_maps may be given maps for

  std::vector<std::byte> serialize() const;
  /// InternalError when the bytes are malformed (the disk store's checksum makes that our fault).
  static Artifact deserialize(const std::vector<std::byte>& bytes);
};

}  // namespace kiln
