#include "registry/profiling/profile_memory.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "registry/profiling/profile_records.hpp"

namespace kiln {
namespace {

std::string_view place_name(MemoryActivity::Place place) {
  constexpr std::array<std::string_view, 5> kPlaces = {"unknown", "pageable", "pinned", "device", "managed"};
  return kPlaces.at(static_cast<std::size_t>(place));
}

}  // namespace

std::string name_of(const MemoryActivity& activity) {
  if (activity.is_set) return "set";
  return std::string("copy ").append(place_name(activity.from)).append(" to ").append(place_name(activity.to));
}

std::vector<ProfileMemoryRow> memory_rows(std::span<const MemoryActivity> activities) {
  struct Samples {
    double bytes = 0;
    std::vector<double> times_us;
  };
  std::map<std::pair<std::string, Device>, Samples> by_kind;
  for (const MemoryActivity& activity : activities) {
    Samples& samples = by_kind[{name_of(activity), Device::cuda(activity.device_index)}];
    samples.bytes += static_cast<double>(activity.bytes);
    samples.times_us.push_back(to_us(activity.end - activity.start));
  }
  std::vector<ProfileMemoryRow> rows;
  for (auto& [kind, samples] : by_kind) {
    ProfileMemoryRow& row = rows.emplace_back();
    row.name = kind.first;
    row.device = kind.second;
    row.bytes = samples.bytes;
    row.time = distribution_of(std::move(samples.times_us));
    if (row.time.total_us > 0) row.gb_s = row.bytes / row.time.total_us * 1e-3;
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const ProfileMemoryRow& row) { return row.time.total_us; });
  return rows;
}

}  // namespace kiln
