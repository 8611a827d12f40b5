#pragma once

#include <span>
#include <string>
#include <vector>

#include "registry/profiling/profile_report.hpp"
#include "runtime/memory_activity.hpp"

namespace kiln {

/// "copy pinned to device", "set": what a row of the table and a slice of the trace are called.
std::string name_of(const MemoryActivity& activity);

/// A row for each kind on each device, most time first.
std::vector<ProfileMemoryRow> memory_rows(std::span<const MemoryActivity> activities);

}  // namespace kiln
