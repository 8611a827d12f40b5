#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "registry/profiling/time_distribution.hpp"
#include "runtime/memory_activity.hpp"

namespace kiln {

/// Copies of one kind, or sets, that one GPU's engines made.
struct ProfileMemoryRow {
  std::string name;  ///< "copy pinned to device", "set"
  Device device;
  double bytes = 0;  ///< of all
  TimeDistribution time;
  double gb_s = 0;
};

/// "copy pinned to device", "set": what a row of the table and a slice of the trace are called.
std::string name_of(const MemoryActivity& activity);

/// A row for each kind on each device, most time first.
std::vector<ProfileMemoryRow> memory_rows(std::span<const MemoryActivity> activities);

}  // namespace kiln
