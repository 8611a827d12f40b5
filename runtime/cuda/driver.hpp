#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/stream_handle.hpp"

/// The part of the CUDA driver API that Kiln uses and backend.hpp does not say, over a libcuda that is opened on first
/// use. Handles are the driver's own, seen as void*, so that cuda.h stops at driver*.cpp. Functions throw DeviceError
/// unless they are noexcept; those that take no context work on the current one.
namespace kiln::cuda {

/// Devices that the driver offers; 0 when there is no usable driver.
int device_count() noexcept;
/// Why device_count is 0, or empty.
const std::string& driver_problem() noexcept;
/// 13000 for a driver of CUDA 13.0.
int driver_version();

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;
  std::int32_t multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int32_t shared_bytes_per_block = 0;  ///< opt-in maximum
  std::int64_t memory_clock_khz = 0;
  std::int32_t bus_width_bits = 0;
  bool has_memory_pools = false;
};
DeviceProperties query_device(int ordinal);
/// The machine's memory node (NUMA) nearest to the device; -1 where it has but one, or the driver does not say.
int host_memory_node(int ordinal);

// Contexts.
void* retain_primary_context(int ordinal);
void* current_context() noexcept;
void set_current_context(void* context) noexcept;
void synchronize_context();

/// While it lives, this thread may call what the driver otherwise forbids while some stream is captured in global mode
/// (loading code, plain allocation).
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int previous_mode_;
};

// Streams and events. A null stream is the legacy default stream of the current context.
void* create_stream(int priority);
int stream_priority(void* stream);
StreamPriorityRange stream_priority_range();
void destroy_stream(void* stream) noexcept;
void synchronize_stream(void* stream);
/// Also true for a null stream that may not be used because a blocking stream is being captured.
bool stream_is_capturing(void* stream);
void* create_event(bool is_timed);
void destroy_event(void* event) noexcept;
void record_event(void* event, void* stream);
void wait_for_event(void* stream, void* event);
bool event_is_done(void* event);
void synchronize_event(void* event);
double elapsed_us(void* start, void* stop);

// Memory.
/// The device's default pool, told to keep what is freed instead of handing it back at every synchronisation.
void prepare_memory_pool(int ordinal);
/// Gives back what the pool keeps and nobody uses.
void trim_memory_pool(int ordinal);
/// What the device's default pool keeps, and how much of it is handed out.
struct PoolUsage {
  std::int64_t reserved_bytes = 0, used_bytes = 0;
};
PoolUsage memory_pool_usage(int ordinal);
/// Null when memory is short; DeviceError for anything else.
void* try_allocate_async(std::int64_t size_bytes, void* stream);
void* try_allocate(std::int64_t size_bytes);
/// The driver's code, 0 for success.
int free_async(void* memory, void* stream) noexcept;
int free_now(void* memory) noexcept;
std::int64_t free_memory_bytes() noexcept;
/// Page-locks memory for all devices. False when the range overlaps memory that is page-locked already.
bool register_host(void* memory, std::size_t size_bytes);
/// The driver's code, 0 for success.
int unregister_host(void* memory) noexcept;
void copy_host_to_device(void* destination, const void* source, std::size_t size_bytes, void* stream);
void copy_device_to_host(void* destination, const void* source, std::size_t size_bytes, void* stream);
void copy_on_device(void* destination, const void* source, std::size_t size_bytes, void* stream);
void copy_between_devices(void* destination, void* destination_context, const void* source, void* source_context,
                          std::size_t size_bytes, void* stream);
void fill_bytes(void* destination, std::uint8_t value, std::size_t size_bytes, void* stream);

// Kernels, independent of contexts: the driver finds the copy for the stream's context.
struct LoadedKernel {
  void* kernel = nullptr;
  void* library = nullptr;  ///< the code it is part of
  std::int32_t registers = 0;
  std::int32_t static_shared_bytes = 0;
  std::int32_t local_bytes = 0;
  std::int32_t max_threads_per_block = 0;
  std::array<std::int32_t, 3> cluster{1, 1, 1};  ///< programs of a cluster along each axis
};
/// Loads a cubin, or PTX with its terminating zero, into the current context, which is that of `ordinal`. `name` is for
/// messages. The code is not unloaded with what holds the result: a graph that captured a launch may be replayed at any
/// time, and nothing tells when the last one is gone.
LoadedKernel load_kernel(const std::vector<std::byte>& code, bool is_ptx, const char* entry, int ordinal,
                         const std::string& name);
/// Takes the code from the device. Nobody uses the kernel any more, and no graph holds a launch of it. DeviceError.
void unload_kernel(const LoadedKernel& kernel);
/// Where the current context has a variable of the code, which is `size_bytes` large; null where the driver does not
/// know it, as it may of PTX, whose inner names it need not keep. `name` is for messages.
void* find_global(void* library, const char* symbol, std::size_t size_bytes, const std::string& name);
/// Writes memory of the current context, in no stream's order, also while streams are captured; returns when done.
void write_global(void* destination, const void* source, std::size_t size_bytes);
/// Lets launches of `kernel` on `ordinal` ask for up to `size_bytes` of dynamic shared memory.
void allow_shared_bytes(void* kernel, int ordinal, std::int32_t size_bytes);

/// Multiprocessors of `ordinal`, whose context is current, on which clusters of so many programs, one to each, run at a
/// time. It knows clusters: compute capability 9.0 or later.
std::int32_t cluster_processors(int ordinal, int programs);

struct LaunchShape {
  unsigned grid_x, grid_y, grid_z;
  unsigned threads;
  unsigned shared_bytes;
  bool overlaps_previous;
};
void launch(void* kernel, const LaunchShape& shape, void* const* parameters, void* stream, const std::string& name);

// Graphs.
void begin_capture(void* stream);
/// Goes on with a graph of the caller's, after `dependencies`. DeviceError where the driver is older than CUDA 12.3.
void begin_capture_to_graph(void* stream, void* graph, std::span<void* const> dependencies);
/// The captured graph, or the caller's. DeviceError, after which the stream is captured no more.
void* end_capture(void* stream);
/// Ends a capture whose work is not wanted. Destroys the graph unless it is the caller's.
void abandon_capture(void* stream, bool is_callers_graph = false) noexcept;
/// The number by which the driver tells captures apart; 0 while `stream` is in none that still goes well.
std::uint64_t capture_id(void* stream);
/// The nodes of the captured graph that the next work of `stream` will depend on.
std::vector<void*> capture_dependencies(void* stream);
/// The graph that `stream` is being captured into.
void* captured_graph(void* stream);
/// Makes a copy of `graph` a node of the graph that `stream` is being captured into. Launching an executable there is
/// refused by the driver.
void capture_child_graph(void* stream, void* graph);
std::vector<void*> graph_nodes(void* graph);
void destroy_node(void* node) noexcept;

/// A user object: the driver calls `drop(data)` when nothing holds it any more.
void* create_user_object(void* data, void (*drop)(void* data));
/// Gives a user object to `graph` and all that is instantiated of it, or where that fails drops it.
void give_user_object(void* graph, void* object);
void launch_graph(void* executable, void* stream);
}  // namespace kiln::cuda
