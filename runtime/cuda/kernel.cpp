#include "runtime/cuda/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/box_map_tables.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"
#include "runtime/process_fork.hpp"

namespace kiln {
namespace cuda {
namespace {

constexpr std::int64_t kMaxGridX = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxGridYZ = 65535;
constexpr std::int32_t kThreadsPerWarp = 32;
/// Shared memory that every kernel may use; more has to be asked for.
constexpr std::int32_t kUnaskedSharedBytes = 48 * 1024;

struct Architecture {
  int major;
  int minor;
  char suffix;  ///< 'a', 'f' or 0
};

std::optional<Architecture> parse_architecture(std::string_view arch) {
  if (!arch.starts_with("sm_")) return std::nullopt;
  arch.remove_prefix(3);
  int number = 0;
  const auto [end, error] = std::from_chars(arch.data(), arch.data() + arch.size(), number);
  const std::string_view suffix(end, static_cast<std::size_t>(arch.data() + arch.size() - end));
  if (error != std::errc() || suffix.size() > 1) return std::nullopt;
  return Architecture{number / 10, number % 10, suffix.empty() ? char{0} : suffix[0]};
}

class CudaKernel final : public Kernel {
 public:
  CudaKernel(const Artifact& artifact, Device device)
      : name_(artifact.name), device_(device), context_(primary_context(device.index)) {
    const CurrentDevice current(device, context_);
    const RelaxedCapture relaxed;
    loaded_ =
        load_kernel(artifact.code, artifact.kind == ArtifactKind::ptx, artifact.entry.c_str(), device.index, name_);
    box_maps_ = std::make_unique<BoxMapTables>(loaded_.library, name_);
    least_dynamic_shared_bytes_ = std::max(artifact.dynamic_shared_bytes, artifact.takes_dynamic_shared ? 1 : 0);
    max_dynamic_shared_bytes_ = CudaBackend::info(device.index).shared_bytes_per_block - loaded_.static_shared_bytes;
    allowed_shared_bytes_ = kUnaskedSharedBytes - loaded_.static_shared_bytes;
    has_clusters_ = loaded_.cluster != std::array<std::int32_t, 3>{1, 1, 1};
  }

  void launch(const LaunchGeometry& geometry, void* const* parameters, Stream stream) const override {
    const auto [x, y, z] = geometry.grid;
    // As unsigned numbers, one comparison covers both negative and too large.
    const bool is_legal = static_cast<std::uint64_t>(x) <= kMaxGridX && static_cast<std::uint64_t>(y) <= kMaxGridYZ &&
                          static_cast<std::uint64_t>(z) <= kMaxGridYZ && geometry.num_warps > 0 &&
                          warps_of(geometry) <= max_warps() && geometry.shared_bytes >= least_dynamic_shared_bytes_ &&
                          geometry.shared_bytes <= max_dynamic_shared_bytes_ && stream.device == device_;
    if (!is_legal) [[unlikely]]
      refuse(geometry, stream);
    if (x == 0 || y == 0 || z == 0) return;
    if (has_clusters_) require_whole_clusters(geometry);
    const CurrentDevice current(device_, context_);
    if (geometry.shared_bytes > allowed_shared_bytes_.load(std::memory_order_relaxed)) [[unlikely]]
      allow_all_shared_memory();
    cuda::launch(loaded_.kernel,
                 {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z),
                  static_cast<unsigned>(warps_of(geometry) * kThreadsPerWarp),
                  static_cast<unsigned>(geometry.shared_bytes), geometry.overlaps_previous},
                 parameters, stream.handle, name_);
  }

  bool take_box_maps(std::span<const BoxMap> maps) const override {
    const CurrentDevice current(device_, context_);
    return box_maps_->take(maps);
  }

  void unload() const noexcept override {
    if (is_lost_in_fork(ForkLoss::cuda_driver)) return;
    try {
      const CurrentDevice current(device_, context_);
      const RelaxedCapture relaxed;
      unload_kernel(loaded_);
    } catch (const DeviceError&) {
      // A context that is gone has taken the code with it.
    }
  }

  KernelResources resources() const override {
    return {loaded_.registers, loaded_.static_shared_bytes, loaded_.local_bytes, loaded_.max_threads_per_block,
            loaded_.cluster};
  }

 private:
  [[noreturn]] void refuse(const LaunchGeometry& geometry, Stream stream) const {
    if (stream.device != device_)
      throw_value_error(fmt::format("kernel {} is loaded on {} and was launched on a stream of {}; load it there too",
                                    name_, to_string(device_), to_string(stream.device)));
    if (geometry.num_warps <= 0 || warps_of(geometry) > max_warps())
      throw_value_error(fmt::format("kernel {} was launched with num_warps={}; with its {} registers it takes 1 to {}",
                                    name_, warps_of(geometry), loaded_.registers, max_warps()));
    if (geometry.shared_bytes < least_dynamic_shared_bytes_ || geometry.shared_bytes > max_dynamic_shared_bytes_)
      throw_value_error(fmt::format(
          "kernel {} was launched with {} bytes of dynamic shared memory; it takes {} or more, and {} has {}", name_,
          geometry.shared_bytes, least_dynamic_shared_bytes_, to_string(device_), max_dynamic_shared_bytes_));
    throw_value_error(
        fmt::format("kernel {} was launched on a grid of {} x {} x {} programs; CUDA takes 0 to {} along axis 0 and 0 "
                    "to {} along axes 1 and 2",
                    name_, geometry.grid[0], geometry.grid[1], geometry.grid[2], kMaxGridX, kMaxGridYZ));
  }

  void require_whole_clusters(const LaunchGeometry& geometry) const {
    const auto [x, y, z] = loaded_.cluster;
    if (geometry.grid[0] % x == 0 && geometry.grid[1] % y == 0 && geometry.grid[2] % z == 0) [[likely]]
      return;
    throw_value_error(fmt::format(
        "kernel {} was launched on a grid of {} x {} x {} programs; it runs in clusters of {} x {} x {}, and "
        "each extent of the grid must be a multiple of the cluster's",
        name_, geometry.grid[0], geometry.grid[1], geometry.grid[2], x, y, z));
  }

  /// On first need and not at load: kernels that use little keep whatever split of shared memory and L1 the driver
  /// prefers for them.
  void allow_all_shared_memory() const {
    allow_shared_bytes(loaded_.kernel, device_.index, max_dynamic_shared_bytes_);
    allowed_shared_bytes_.store(max_dynamic_shared_bytes_, std::memory_order_relaxed);
  }

  static std::int32_t warps_of(const LaunchGeometry& geometry) noexcept {
    return geometry.num_warps + geometry.copy_warps;
  }
  std::int32_t max_warps() const noexcept { return loaded_.max_threads_per_block / kThreadsPerWarp; }

  std::string name_;
  Device device_;
  void* context_;
  LoadedKernel loaded_;
  std::unique_ptr<BoxMapTables> box_maps_;
  bool has_clusters_ = false;
  std::int32_t least_dynamic_shared_bytes_ = 0, max_dynamic_shared_bytes_ = 0;
  mutable std::atomic<std::int32_t> allowed_shared_bytes_ = 0;
};

}  // namespace

bool runs_on(ArtifactKind kind, std::string_view arch, std::string_view device_arch) {
  const auto code = parse_architecture(arch);
  const auto device = parse_architecture(device_arch);
  if (!code || !device) return false;
  const bool is_same = code->major == device->major && code->minor == device->minor;
  if (code->suffix == 'a') return is_same;
  if (kind == ArtifactKind::ptx && code->suffix == 0)
    return std::pair(code->major, code->minor) <= std::pair(device->major, device->minor);
  return code->major == device->major && code->minor <= device->minor;
}

}  // namespace cuda

std::shared_ptr<const Kernel> CudaBackend::load_kernel(const Artifact& artifact, Device device) {
  const DeviceInfo& own = info(device.index);
  if (artifact.kind == ArtifactKind::object || !cuda::runs_on(artifact.kind, artifact.target.arch, own.target.arch))
    throw_value_error(fmt::format("kernel {} was compiled for {}, which does not run on {} ({}, {})", artifact.name,
                                  to_string(artifact.target), to_string(device), own.name, own.target.arch));
  if (artifact.kind == ArtifactKind::ptx && (artifact.code.empty() || artifact.code.back() != std::byte{0}))
    throw InternalError(fmt::format("PTX of kernel {} lacks its terminating zero", artifact.name));
  return std::make_shared<cuda::CudaKernel>(artifact, device);
}

}  // namespace kiln
