#include <mutex>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory_usage.hpp"

namespace kiln {
namespace {

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
  std::once_flag queried, clusters_queried;
  DeviceInfo info;
  std::int32_t cluster_processors = 0;
};

CachedInfo& cached(int ordinal) {
  static auto* const cache = new std::vector<CachedInfo>(static_cast<std::size_t>(cuda::device_count()));
  return cache->at(static_cast<std::size_t>(ordinal));
}

}  // namespace

int CudaBackend::device_count() noexcept {
  return cuda::device_count();
}

std::string CudaBackend::problem() noexcept {
  return cuda::driver_problem();
}

const DeviceInfo& CudaBackend::info(int ordinal) {
  CachedInfo& entry = cached(ordinal);
  std::call_once(entry.queried, [&] { entry.info = query_cuda(ordinal); });
  return entry.info;
}

std::int32_t CudaBackend::cluster_processors(Device device) {
  CachedInfo& entry = cached(device.index);
  std::call_once(entry.clusters_queried, [&] {
    const CurrentDevice current(device);
    const cuda::RelaxedCapture relaxed;
    // A driver without its compiler of PTX is no reason to refuse calls.
    try {
      entry.cluster_processors = cuda::cluster_processors(device.index, kClusterPrograms);
    } catch (const DeviceError&) {
      entry.cluster_processors = 0;
    }
  });
  return entry.cluster_processors;
}

MemoryUsage CudaBackend::memory_usage(Device device) {
  const CurrentDevice current(device);
  const bool has_pool = cuda::query_device(device.index).has_memory_pools;
  const cuda::PoolUsage pool = has_pool ? cuda::memory_pool_usage(device.index) : cuda::PoolUsage{};
  MemoryUsage usage;
  usage.total_bytes = info(device.index).memory_bytes;
  usage.free_bytes = cuda::free_memory_bytes();
  usage.used_bytes = usage.total_bytes - usage.free_bytes;
  usage.pool_reserved_bytes = pool.reserved_bytes;
  usage.pool_used_bytes = pool.used_bytes;
  return usage;
}

int CudaBackend::host_memory_node(Device device) {
  return cuda::host_memory_node(device.index);
}

}  // namespace kiln
