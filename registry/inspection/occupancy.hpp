#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/target.hpp"

namespace kiln {

/// What a multiprocessor has for the programs on it.
struct MultiprocessorLimits {
  std::int32_t warps = 0;
  std::int32_t programs = 0;
  std::int32_t registers = 0;
  std::int32_t shared_bytes = 0;              ///< at most, of the memory that it shares with the L1 cache
  std::int32_t shared_bytes_per_program = 0;  ///< at most, of which one may ask for
};
/// Of a GPU's architecture ("sm_90a"), as the CUDA C++ Programming Guide has them ("Technical Specifications per
/// Compute Capability"). nullopt for one that is not in the table.
std::optional<MultiprocessorLimits> multiprocessor_limits(const Target& target);

/// What a kernel's programs take of a multiprocessor.
struct ProgramResources {
  std::int32_t threads = 0;
  std::int32_t registers_per_thread = 0;
  std::int32_t shared_bytes = 0;  ///< static and dynamic
};

/// How many programs of a kernel are on a multiprocessor at a time, where there are enough of them.
struct Occupancy {
  std::int32_t programs = 0;  ///< 0: not even one fits
  std::int32_t warps = 0;     ///< of those programs
  double share = 0;           ///< of the warps that a multiprocessor can have, 0 to 1
  /// As many programs as each resource allows for.
  std::int32_t by_registers = 0;
  std::int32_t by_shared_memory = 0;
  std::int32_t by_threads = 0;
  std::int32_t by_programs = 0;
  /// Those that allow for no more than there are: "registers", "shared memory", "threads", "programs".
  std::vector<std::string> limited_by;
};

/// As the driver counts: registers go to warps by 256, on one of four parts of the multiprocessor; shared memory to
/// programs by 128 bytes, of which 1 KiB is the system's. Clusters, whose programs must find room together, are not
/// looked at. nullopt for an architecture that is not in the table.
std::optional<Occupancy> occupancy(const Target& target, const ProgramResources& resources);

/// "4 programs, 32 of 64 warps (50%); limited by registers".
std::string to_string(const Occupancy& occupancy, const MultiprocessorLimits& limits);

}  // namespace kiln
