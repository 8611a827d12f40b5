#include "runtime/device_info.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/environment.hpp"
#include "core/errors.hpp"
#include "runtime/device_access.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_driver.hpp"
#endif

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
  info.target = {DeviceType::cpu, {}, {}};
  info.processors = usable_cpu_threads();
  info.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  info.l2_bytes = std::max<std::int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 0);
  return info;
}

#if KILN_HAS_CUDA
DeviceInfo query_cuda(int ordinal) {
  const cuda::DeviceProperties properties = cuda::query_device(ordinal);
  DeviceInfo info;
  info.name = properties.name;
  info.target = cuda_target(properties.major, properties.minor);
  info.processors = properties.multiprocessors;
  info.memory_bytes = properties.memory_bytes;
  info.l2_bytes = properties.l2_bytes;
  info.shared_bytes_per_block = properties.shared_bytes_per_block;
  info.driver_version = cuda::driver_version();
  // Two transfers per clock, in bytes.
  info.peak_bandwidth_gb_s = 2.0 * static_cast<double>(properties.memory_clock_khz) * 1e3 *
                             static_cast<double>(properties.bus_width_bits) / 8.0 / 1e9;
  return info;
}

struct CachedInfo {
  std::once_flag queried;
  DeviceInfo info;
};

const DeviceInfo& cuda_info(int ordinal) {
  static auto* const cache = new std::vector<CachedInfo>(static_cast<std::size_t>(cuda::device_count()));
  CachedInfo& cached = cache->at(static_cast<std::size_t>(ordinal));
  std::call_once(cached.queried, [&] { cached.info = query_cuda(ordinal); });
  return cached.info;
}
#endif

/// Why there is no device `device`, naming those that there are.
std::string absence(Device device) {
  const int count = device_count(device.type);
  if (device.type == DeviceType::cpu)
    return fmt::format("there is no device {}; the CPU is one device, cpu", to_string(device));
  if (count == 0) return fmt::format("there is no device {}: {}", to_string(device), device_problem(device.type));
  return fmt::format("there is no device {}; there {} cuda:0{}", to_string(device), count == 1 ? "is" : "are",
                     count == 1 ? std::string() : fmt::format(" to cuda:{}", count - 1));
}

bool exists(Device device) {
  return device.index >= 0 && device.index < device_count(device.type);
}

}  // namespace

int device_count(DeviceType type) noexcept {
  if (type == DeviceType::cpu) return 1;
#if KILN_HAS_CUDA
  return cuda::device_count();
#else
  return 0;
#endif
}

std::string device_problem(DeviceType type) noexcept {
  if (type == DeviceType::cpu) return {};
#if KILN_HAS_CUDA
  return cuda::driver_problem();
#else
  return "this Kiln was built without the NVIDIA target; rebuild with -DKILN_CUDA=ON (needs the CUDA toolkit's "
         "headers)";
#endif
}

const DeviceInfo& device_info(Device device) {
  if (!exists(device)) throw_value_error(absence(device));
#if KILN_HAS_CUDA
  if (device.is_cuda()) return cuda_info(device.index);
#endif
  static const DeviceInfo cpu = query_cpu();
  return cpu;
}

void require_cuda_device(Device device) {
  if (!exists(device)) throw DeviceError("using " + to_string(device), 0, absence(device));
}

}  // namespace kiln
