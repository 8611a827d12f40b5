#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "core/environment.hpp"
#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_info.hpp"

namespace kiln {
namespace {

std::string cpu_model_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

/// Cores that this process may run on, at most KILN_NUM_THREADS.
std::int32_t usable_cpu_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails on machines with more than CPU_SETSIZE cores, where the standard library's count has to do.
  const int cores = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                        ? CPU_COUNT(&allowed)
                        : static_cast<int>(std::thread::hardware_concurrency());
  const auto wanted = environment_int("KILN_NUM_THREADS");
  if (wanted && *wanted < 1) throw_value_error(fmt::format("KILN_NUM_THREADS is {}; expected 1 or more", *wanted));
  return static_cast<std::int32_t>(std::min<std::int64_t>(wanted.value_or(cores), std::max(cores, 1)));
}

DeviceInfo query_cpu() {
  DeviceInfo info;
  info.name = cpu_model_name();
  // What is tuned for some instruction sets is not for the others.
  if (const auto features = environment("KILN_CPU_FEATURES")) info.name += fmt::format(" as {}", *features);
  info.target = {DeviceType::cpu, {}, {}};
  info.processors = usable_cpu_threads();
  info.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  info.l2_bytes = std::max<std::int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 0);
  return info;
}

}  // namespace

int CpuBackend::device_count() noexcept {
  return 1;
}

std::string CpuBackend::problem() noexcept {
  return {};
}

const DeviceInfo& CpuBackend::info(int /*ordinal*/) {
  // Never destroyed: threads may still dispatch while the process exits.
  static const DeviceInfo& cpu = *new DeviceInfo(query_cpu());
  return cpu;
}

}  // namespace kiln
