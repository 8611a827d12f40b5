#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/stream_handle.hpp"

/// What a device offers. Each kind of device has a folder that defines its functions, runtime/cpu and runtime/cuda, and
/// of which nothing else in runtime/ knows; runtime/absent stands in for a target that a build leaves out. CMake
/// chooses between them, so that no source asks what its build has.
///
/// Functions of a struct rather than virtual ones of an interface: `allocate` is on the way of every dispatch.
namespace kiln {

struct Artifact;
struct DeviceInfo;
struct MemoryUsage;
struct TensorMap;
class Kernel;

struct CpuBackend {
  static int device_count() noexcept;
  /// Why device_count is 0, or empty.
  static std::string problem() noexcept;
  /// Of a device that is there. Cached.
  static const DeviceInfo& info(int ordinal);
  static MemoryUsage memory_usage(Device device);
  /// 0 when unknown.
  static std::int64_t last_level_cache_bytes();
  /// See `empty`, of one byte or more.
  static std::shared_ptr<void> allocate(std::int64_t size_bytes, Stream stream);
  /// Memory that is there at once, whatever streams do, also while they are being captured.
  static std::shared_ptr<void> allocate_outside_streams(std::int64_t size_bytes, Device device);
  /// See load_kernel; `device` is there.
  static std::shared_ptr<const Kernel> load_kernel(const Artifact& artifact, Device device);
};

/// Beside what the CPU offers, what only a device has whose work runs behind the host: the CPU's is done when the call
/// that starts it returns, so that its streams are null, its events always reached and its graphs lists of calls.
/// Functions throw DeviceError unless they are noexcept. Those that take neither a device nor a stream work on the
/// device that is current (CurrentDevice).
struct CudaBackend {
  static int device_count() noexcept;
  static std::string problem() noexcept;
  static const DeviceInfo& info(int ordinal);
  /// See kiln::cluster_processors. Cached.
  static std::int32_t cluster_processors(Device device);
  static MemoryUsage memory_usage(Device device);
  /// From the device's default pool where it has pools. Freed in the order of `stream` when the last owner goes, which
  /// never throws and is safe at process exit. While `stream` is being captured the allocation is a node of the graph
  /// (`empty` asks for one only in captures that are not kiln::capture's).
  static std::shared_ptr<void> allocate(std::int64_t size_bytes, Stream stream);
  /// The last owner waits for the device before the memory is freed (cuMemFree does).
  static std::shared_ptr<void> allocate_outside_streams(std::int64_t size_bytes, Device device);
  static std::shared_ptr<const Kernel> load_kernel(const Artifact& artifact, Device device);

  // Streams and events.
  static StreamPriorityRange stream_priority_range(Device device);
  static void* create_stream(Device device, int priority);
  static void destroy_stream(Stream stream) noexcept;
  static int stream_priority(Stream stream);
  static void synchronize(Stream stream);
  /// Waits for all streams; not while one is being captured (DeviceWaitTurn).
  static void synchronize_device(Device device);
  static void* create_event(Device device, bool is_timed);
  static void destroy_event(Device device, void* event) noexcept;
  static void record_event(void* event, Stream stream);
  static void wait_for_event(Stream stream, void* event);
  static bool event_is_done(Device device, void* event);
  static void synchronize_event(Device device, void* event);
  static double elapsed_us(Device device, void* start, void* stop);
  /// See kiln::fork_join.
  static void fork_join(Stream stream, std::span<const std::function<void(Stream)>> branches);

  // Memory.
  /// At least one side is on a GPU, and `stream` is of one that takes part.
  static void copy(void* destination, Device destination_device, const void* source, Device source_device,
                   std::size_t size_bytes, Stream stream);
  static void fill(void* destination, std::uint8_t value, std::size_t size_bytes, Stream stream);
  /// Page-locks memory of the host for all GPUs. False when the range overlaps memory that is page-locked already.
  static bool lock_host_memory(void* memory, std::size_t size_bytes, Device device);
  static void unlock_host_memory(void* memory, Device device) noexcept;
  /// The machine's memory node (NUMA) nearest to the device; -1 where it has but one, or the driver does not say.
  static int host_memory_node(Device device);
  /// Where the current device finds a byte of page-locked memory, and how many bytes from it on were page-locked
  /// together; null when the byte is not page-locked.
  struct LockedRange {
    std::byte* device_address = nullptr;
    std::int64_t size_bytes = 0;
  };
  static LockedRange find_locked_range(const void* host_memory);
  /// The ordinal of the device that a byte belongs to, of managed memory the one that allocated it; -1 for other
  /// memory.
  static int device_of_memory(const void* memory);
  /// How many bytes the allocation of GPU memory that holds a byte has from there on; 0 for other memory.
  static std::int64_t bytes_left_in_allocation(const void* memory);

  // Tensor maps. `encoded` is 128 bytes, aligned to 128; `address`, a multiple of kTensorMapAlignmentBytes, is where
  // the map starts.
  /// `map` has no tensor_map_problem.
  static void encode_tensor_map(void* encoded, const TensorMap& map, void* address);
  static void replace_address(void* encoded, void* address);

  // Graphs. Handles are the driver's.
  static bool is_capturing(Stream stream);
  /// The number by which the driver tells captures apart; 0 while `stream` is in none that still goes well.
  static std::uint64_t capture_id(Stream stream);
  static void begin_capture(Stream stream);
  /// The captured graph. DeviceError, after which the stream is captured no more.
  static void* end_capture(Stream stream);
  /// Ends a capture whose work is not wanted.
  static void abandon_capture(Stream stream) noexcept;
  /// The nodes of the captured graph that the next work of `stream` will depend on.
  static std::vector<void*> capture_dependencies(Stream stream);
  /// Frees what could not be freed while its stream was being captured.
  static void free_deferred() noexcept;
  static void destroy_graph(void* graph) noexcept;
  /// An executable graph.
  static void* instantiate_graph(void* graph);
  /// Changes `executable` to what `graph` holds. Why that cannot be, or empty.
  static std::string update_executable(void* executable, void* graph);
  /// Gives a kernel node of `executable` the kernel and geometry of `source`, a node of a graph that is not
  /// instantiated, with `parameters`, which `source` takes as well.
  static void set_kernel_parameters(void* executable, void* node, void* source, void* const* parameters);
  /// Launches, and puts the event `launched`, made where it is null, behind the launch. False, and nothing was done,
  /// where `stream` is being captured.
  static bool launch_graph(void* executable, void*& launched, Stream stream);
  /// Makes a copy of `graph` a node of the graph that `stream` is being captured into.
  static void capture_child_graph(Stream stream, void* graph);
  /// Keeps `holdings` as long as the graph that `stream` is being captured into and all that is instantiated of it.
  static void hold_with_capture(Stream stream, std::shared_ptr<void> holdings);
  static void destroy_executable(void* executable) noexcept;
  /// Keeps what a graph's work names until `launched`, an event behind its last launch, is reached; the event goes too.
  /// Null where there was no launch.
  static void retire_holdings(std::shared_ptr<void> holdings, void* launched) noexcept;
  /// Drops retired holdings whose launches are done, and those of the caller's graphs that are gone.
  static void drop_finished_holdings() noexcept;
  /// See kiln::capture_into, for a stream that can be captured.
  static std::vector<void*> capture_into(void* graph, std::span<void* const> dependencies, Stream stream,
                                         const std::function<void()>& body);
};

/// What `ask` returns of the backend of a kind of device: with_backend(type, [](auto backend) { return
/// backend.device_count(); }).
template <typename Ask>
decltype(auto) with_backend(DeviceType type, const Ask& ask) {
  return type == DeviceType::cuda ? ask(CudaBackend()) : ask(CpuBackend());
}

/// Makes a GPU's primary context current for this thread while it lives. Costs one look at the current context when it
/// is current already; for the CPU does nothing.
class CurrentDevice {
 public:
  /// DeviceError where the driver refuses the device.
  explicit CurrentDevice(Device device);
  /// With the primary context of a GPU, as launches know it. Never throws: where the driver refuses, the call that
  /// needs the context says so.
  CurrentDevice(Device gpu, void* context) noexcept;
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  void enter(Device gpu, void* context) noexcept;
  void* previous_ = nullptr;
  bool must_restore_ = false;
};

}  // namespace kiln
