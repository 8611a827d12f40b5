#include "runtime/memory_usage.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_info.hpp"

namespace kiln {
namespace {

/// The number in a file that holds nothing else; `fallback` where there is no such file or it says "max".
std::int64_t number_in(const char* path, std::int64_t fallback) {
  std::int64_t value = 0;
  return std::ifstream(path) >> value ? value : fallback;
}

/// What a container could not give back: of the files' pages it keeps, the inactive ones go as soon as memory is asked
/// for.
std::int64_t cgroup_used_bytes() {
  std::int64_t inactive_bytes = 0;
  std::ifstream statistics("/sys/fs/cgroup/memory.stat");
  std::string name;
  for (std::int64_t value = 0; statistics >> name >> value;)
    if (name == "inactive_file") inactive_bytes = value;
  return std::max<std::int64_t>(0, number_in("/sys/fs/cgroup/memory.current", 0) - inactive_bytes);
}

/// Linux gives the size as "266240K".
std::int64_t cache_size_bytes(const std::filesystem::path& file) {
  std::string text;
  std::ifstream(file) >> text;
  try {
    return parse_bytes(text, "cache");
  } catch (const UsageError&) {
    return 0;
  }
}

std::int64_t query_cpu_cache_bytes() {
  // Of each processor the cache with the highest index; those that share one name it alike.
  std::map<std::string, std::int64_t> caches;
  std::error_code ignored;
  for (const auto& cpu : std::filesystem::directory_iterator("/sys/devices/system/cpu", ignored)) {
    for (int index = 4; index >= 2; --index) {
      const std::filesystem::path folder = cpu.path() / "cache" / fmt::format("index{}", index);
      std::string shared_by;
      if (!(std::ifstream(folder / "shared_cpu_list") >> shared_by)) continue;
      caches[shared_by] = cache_size_bytes(folder / "size");
      break;
    }
  }
  std::int64_t total_bytes = 0;
  for (const auto& cache : caches) total_bytes += cache.second;
  if (total_bytes > 0) return total_bytes;
  return std::max<std::int64_t>({sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), 0});
}

}  // namespace

MemoryUsage CpuBackend::memory_usage(Device device) {
  constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
  MemoryUsage usage;
  usage.total_bytes = info(device.index).memory_bytes;
  std::int64_t pages = 0, resident_pages = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> resident_pages)
    usage.used_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  std::ifstream meminfo("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kib = 0; meminfo >> name >> kib; std::getline(meminfo, unit))
    if (name == "MemAvailable:") usage.free_bytes = kib * 1024;
  // A container may have less than the machine.
  const std::int64_t limit_bytes = number_in("/sys/fs/cgroup/memory.max", kUnlimited);
  if (limit_bytes < usage.total_bytes) {
    usage.total_bytes = limit_bytes;
    usage.free_bytes = std::clamp<std::int64_t>(limit_bytes - cgroup_used_bytes(), 0, usage.free_bytes);
  }
  return usage;
}

std::int64_t CpuBackend::last_level_cache_bytes() {
  static const std::int64_t cpu_bytes = query_cpu_cache_bytes();
  return cpu_bytes;
}

}  // namespace kiln
