// Stands in for runtime/cuda in a build without the NVIDIA target: there is no device, and whoever asks for one was
// told so before (require_cuda_device).

#include "core/absent_target.hpp"
#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"
#include "runtime/memory_usage.hpp"

namespace kiln {
namespace {

using Memory = std::shared_ptr<void>;
using Branches = std::span<const std::function<void(Stream)>>;
using Nodes = std::span<void* const>;

[[noreturn]] void refuse() {
  throw InternalError("a build without the NVIDIA target got as far as using a CUDA device");
}

}  // namespace

int CudaBackend::device_count() noexcept {
  return 0;
}

std::string CudaBackend::problem() noexcept {
  return kNoCudaTarget;
}

// clang-format off
const DeviceInfo& CudaBackend::info(int) { refuse(); }
std::int32_t CudaBackend::cluster_processors(Device) { refuse(); }
MemoryUsage CudaBackend::memory_usage(Device) { refuse(); }
Memory CudaBackend::allocate(std::int64_t, Stream) { refuse(); }
Memory CudaBackend::allocate_outside_streams(std::int64_t, Device) { refuse(); }
std::shared_ptr<const Kernel> CudaBackend::load_kernel(const Artifact&, Device) { refuse(); }

StreamPriorityRange CudaBackend::stream_priority_range(Device) { refuse(); }
void* CudaBackend::create_stream(Device, int) { refuse(); }
void CudaBackend::destroy_stream(Stream) noexcept {}
int CudaBackend::stream_priority(Stream) { refuse(); }
void CudaBackend::synchronize(Stream) { refuse(); }
void CudaBackend::synchronize_device(Device) { refuse(); }
void* CudaBackend::create_event(Device, bool) { refuse(); }
void CudaBackend::destroy_event(Device, void*) noexcept {}
void CudaBackend::record_event(void*, Stream) { refuse(); }
void CudaBackend::wait_for_event(Stream, void*) { refuse(); }
bool CudaBackend::event_is_done(Device, void*) { refuse(); }
void CudaBackend::synchronize_event(Device, void*) { refuse(); }
double CudaBackend::elapsed_us(Device, void*, void*) { refuse(); }
void CudaBackend::fork_join(Stream, Branches) { refuse(); }

void CudaBackend::copy(void*, Device, const void*, Device, std::size_t, Stream) { refuse(); }
void CudaBackend::fill(void*, std::uint8_t, std::size_t, Stream) { refuse(); }
bool CudaBackend::lock_host_memory(void*, std::size_t, Device) { refuse(); }
void CudaBackend::unlock_host_memory(void*, Device) noexcept {}
int CudaBackend::host_memory_node(Device) { refuse(); }
CudaBackend::LockedRange CudaBackend::find_locked_range(const void*) { refuse(); }
int CudaBackend::device_of_memory(const void*) { refuse(); }
std::int64_t CudaBackend::bytes_left_in_allocation(const void*) { refuse(); }
void CudaBackend::encode_tensor_map(void*, const TensorMap&, void*) { refuse(); }
void CudaBackend::replace_address(void*, void*) { refuse(); }

bool CudaBackend::is_capturing(Stream) { refuse(); }
std::uint64_t CudaBackend::capture_id(Stream) { refuse(); }
void CudaBackend::begin_capture(Stream) { refuse(); }
void* CudaBackend::end_capture(Stream) { refuse(); }
void CudaBackend::abandon_capture(Stream) noexcept {}
std::vector<void*> CudaBackend::capture_dependencies(Stream) { refuse(); }
void CudaBackend::free_deferred() noexcept {}
void CudaBackend::destroy_graph(void*) noexcept {}
void* CudaBackend::instantiate_graph(void*) { refuse(); }
std::string CudaBackend::update_executable(void*, void*) { refuse(); }
void CudaBackend::set_kernel_parameters(void*, void*, void*, void* const*) { refuse(); }
bool CudaBackend::launch_graph(void*, void*&, Stream) { refuse(); }
void CudaBackend::capture_child_graph(Stream, void*) { refuse(); }
void CudaBackend::hold_with_capture(Stream, Memory) { refuse(); }
void CudaBackend::destroy_executable(void*) noexcept {}
void CudaBackend::retire_holdings(Memory, void*) noexcept {}
void CudaBackend::drop_finished_holdings() noexcept {}
std::vector<void*> CudaBackend::capture_into(void*, Nodes, Stream, const std::function<void()>&) { refuse(); }
// clang-format on

CurrentDevice::CurrentDevice(Device device) {
  if (device.is_cuda()) refuse();
}
CurrentDevice::CurrentDevice(Device, void*) noexcept {}
CurrentDevice::~CurrentDevice() = default;

}  // namespace kiln
