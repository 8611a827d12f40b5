#include "runtime/kernel_activity.hpp"

#include <cupti.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/errors.hpp"
#include "runtime/cuda/cupti_library.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/device_info.hpp"
#include "runtime/process_fork.hpp"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

/// A launch takes some 300 bytes, and threads that launch have a buffer each.
constexpr std::size_t kBufferBytes = std::size_t{256} * 1024;
/// Where CUPTI holds more than these its further records are lost.
constexpr std::size_t kMostBuffers = 1024;
constexpr std::size_t kMostFreeBuffers = 16;

/// Of the calls that Kiln makes.
bool is_launch(CUpti_CallbackId call) {
  return call == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx || call == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch;
}

// Newer versions of CUPTI make longer records of kernels, with these at the same place.
using KernelRecord = CUpti_ActivityKernel9;
static_assert(offsetof(KernelRecord, start) == offsetof(CUpti_ActivityKernel4, start) &&
              offsetof(KernelRecord, end) == offsetof(CUpti_ActivityKernel4, end) &&
              offsetof(KernelRecord, correlationId) == offsetof(CUpti_ActivityKernel4, correlationId));

// And of copies and sets, whose first fields have stayed where they were.
using CopyRecord = CUpti_ActivityMemcpy;
using SetRecord = CUpti_ActivityMemset;
static_assert(offsetof(CopyRecord, bytes) == offsetof(CUpti_ActivityMemcpy5, bytes) &&
              offsetof(CopyRecord, srcKind) == offsetof(CUpti_ActivityMemcpy5, srcKind) &&
              offsetof(CopyRecord, dstKind) == offsetof(CUpti_ActivityMemcpy5, dstKind) &&
              offsetof(CopyRecord, start) == offsetof(CUpti_ActivityMemcpy5, start) &&
              offsetof(CopyRecord, end) == offsetof(CUpti_ActivityMemcpy5, end) &&
              offsetof(CopyRecord, deviceId) == offsetof(CUpti_ActivityMemcpy5, deviceId));
static_assert(offsetof(SetRecord, bytes) == offsetof(CUpti_ActivityMemset4, bytes) &&
              offsetof(SetRecord, start) == offsetof(CUpti_ActivityMemset4, start) &&
              offsetof(SetRecord, end) == offsetof(CUpti_ActivityMemset4, end) &&
              offsetof(SetRecord, deviceId) == offsetof(CUpti_ActivityMemset4, deviceId));
/// Beside kernels and the driver's calls.
constexpr CUpti_ActivityKind kMemoryKinds[] = {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

#define KILN_CUPTI_FUNCTIONS(FUNCTION)             \
  FUNCTION(cuptiGetResultString)                   \
  FUNCTION(cuptiActivityEnable)                    \
  FUNCTION(cuptiActivityDisable)                   \
  FUNCTION(cuptiActivityRegisterCallbacks)         \
  FUNCTION(cuptiActivityRegisterTimestampCallback) \
  FUNCTION(cuptiActivityFlushAll)                  \
  FUNCTION(cuptiActivityGetNextRecord)

struct Cupti {
// A declared name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_CUPTI_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
  // Newer than the others and than some headers (CUDA 12.5); without it all calls of the driver are taken down.
  CUptiResult(CUPTIAPI* enable_driver_call)(CUpti_CallbackId, std::uint8_t) = nullptr;
};

/// The functions of the library that is there today. DeviceError.
Cupti load_cupti() {
  const CuptiLibrary library = open_cupti(cupti_candidates());
  if (library.handle == nullptr) throw DeviceError("loading libcupti", 0, library.problem);
  Cupti cupti;
#define KILN_RESOLVE(name)                                                           \
  cupti.name = reinterpret_cast<decltype(cupti.name)>(dlsym(library.handle, #name)); \
  if (cupti.name == nullptr)                                                         \
    throw DeviceError("loading libcupti", 0, "it has no " #name ": CUPTI of CUDA 12 is needed");
  KILN_CUPTI_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
  cupti.enable_driver_call =
      reinterpret_cast<decltype(cupti.enable_driver_call)>(dlsym(library.handle, "cuptiActivityEnableDriverApi"));
  return cupti;
}

const char* advice(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "; another tool (Nsight, cuda-gdb, compute-sanitizer) watches this process, and there is room for one";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "; the driver keeps profiling for administrators (NVreg_RestrictProfilingToAdminUsers)";
    case CUPTI_ERROR_NOT_COMPATIBLE:
      return "; this CUPTI does not fit the driver: set KILN_CUPTI_PATH to one of the driver's CUDA version";
    default:
      return "";
  }
}

void check(const Cupti& cupti, CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cupti.cuptiGetResultString(result, &text);
  throw DeviceError(call, static_cast<int>(result),
                    fmt::format("{}{}", text != nullptr ? text : "an error unknown to this CUPTI", advice(result)));
}

/// In nanoseconds of the clock that CUPTI was given.
struct Interval {
  std::uint64_t start, end;
};
struct Launch {
  std::uint32_t correlation, thread;
  std::uint64_t launched;
};

/// What CUPTI's threads and its callers share. Never destroyed: they may go on while statics are.
struct State {
  State() { free.reserve(kMostFreeBuffers + 1); }  // take_buffer adds to it, and must not throw

  std::mutex mutex;  ///< of what follows, but for `cupti`
  std::condition_variable ended;
  bool is_active = false;
  Cupti cupti;  ///< of the last one; written while CUPTI is at rest

  std::size_t max_launches = 0;
  std::unordered_map<std::uint32_t, Interval> kernels;  ///< by launch
  std::vector<Launch> launches;
  std::vector<MemoryActivity> memory;
  bool is_complete = true;  ///< no kernel was left out of `kernels`

  std::mutex buffers_mutex;                ///< of what follows: launches wait for nothing else
  std::unordered_set<std::uint8_t*> lent;  ///< buffers that CUPTI holds
  std::vector<std::unique_ptr<std::uint8_t[]>> free;
};
State& state() {
  static auto* const state = new State;
  return *state;
}

std::uint64_t steady_ns() {
  static_assert(std::is_same_v<Clock::period, std::nano>);
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}

/// CUPTI's own clock on Linux, for whoever uses it next.
std::uint64_t system_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

Clock::time_point time_of(std::uint64_t ns) {
  return Clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
}

void CUPTIAPI lend_buffer(std::uint8_t** buffer, std::size_t* size_bytes, std::size_t* max_records) {
  *buffer = nullptr;
  *size_bytes = 0;
  *max_records = 0;  // as many as there is room for
  State& shared = state();
  const std::lock_guard lock(shared.buffers_mutex);
  if (shared.lent.size() >= kMostBuffers) return;
  try {
    if (shared.free.empty()) shared.free.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(kBufferBytes));
    shared.lent.insert(shared.free.back().get());
  } catch (const std::bad_alloc&) {
    return;
  }
  *buffer = shared.free.back().release();
  *size_bytes = kBufferBytes;
  shared.free.pop_back();
}

/// What a buffer holds. Read without the lock: CUPTI may have locks of its own around lend_buffer.
struct Records {
  std::vector<std::pair<std::uint32_t, Interval>> kernels;  ///< with their launches
  std::vector<Launch> launches;
  std::vector<MemoryActivity> memory;
  bool is_complete = true;
};

MemoryActivity::Place place_of(std::uint8_t memory_kind) {
  switch (memory_kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return MemoryActivity::Place::pageable;
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return MemoryActivity::Place::pinned;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return MemoryActivity::Place::device;
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return MemoryActivity::Place::managed;
    default:
      return MemoryActivity::Place::unknown;
  }
}

/// What copies and sets have alike. CUPTI writes times of 0 where it knows none, and such are left out.
template <typename Record>
void add_memory(Records& records, const Record& record, MemoryActivity activity) {
  if (record.start == 0 || record.end < record.start) return;
  activity.device_index = static_cast<std::int32_t>(record.deviceId);
  activity.bytes = static_cast<std::int64_t>(record.bytes);
  activity.start = time_of(record.start);
  activity.end = time_of(record.end);
  records.memory.push_back(activity);
}

Records read_buffer(const Cupti& cupti, std::uint8_t* buffer, std::size_t valid_bytes) {
  Records records;
  CUpti_Activity* next = nullptr;
  while (cupti.cuptiActivityGetNextRecord(buffer, valid_bytes, &next) == CUPTI_SUCCESS) {
    if (next->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = *reinterpret_cast<const KernelRecord*>(next);
      if (kernel.start != 0 && kernel.end >= kernel.start)
        records.kernels.emplace_back(kernel.correlationId, Interval{kernel.start, kernel.end});
      else
        records.is_complete = false;  // CUPTI does not know
    } else if (next->kind == CUPTI_ACTIVITY_KIND_DRIVER) {
      const auto& call = *reinterpret_cast<const CUpti_ActivityAPI*>(next);
      if (is_launch(call.cbid))
        records.launches.push_back({call.correlationId, call.threadId, call.start + (call.end - call.start) / 2});
    } else if (next->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto& copy = *reinterpret_cast<const CopyRecord*>(next);
      add_memory(records, copy, {.is_set = false, .from = place_of(copy.srcKind), .to = place_of(copy.dstKind)});
    } else if (next->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      add_memory(records, *reinterpret_cast<const SetRecord*>(next), {.is_set = true});
    }
  }
  return records;
}

void keep(State& shared, const Records& records) {
  for (const auto& [correlation, interval] : records.kernels) {
    const auto found = shared.kernels.find(correlation);
    if (found != shared.kernels.end()) {  // of a graph
      found->second.start = std::min(found->second.start, interval.start);
      found->second.end = std::max(found->second.end, interval.end);
    } else if (shared.kernels.size() < shared.max_launches) {
      shared.kernels.emplace(correlation, interval);
    } else {
      shared.is_complete = false;
    }
  }
  shared.is_complete = shared.is_complete && records.is_complete;
  for (const Launch& launch : records.launches)
    if (shared.launches.size() < shared.max_launches) shared.launches.push_back(launch);
  for (const MemoryActivity& activity : records.memory)
    if (shared.memory.size() < shared.max_launches) shared.memory.push_back(activity);
}

void keep_buffer(State& shared, std::uint8_t* buffer, std::size_t valid_bytes) noexcept {
  try {
    const Records records = read_buffer(shared.cupti, buffer, valid_bytes);
    const std::lock_guard lock(shared.mutex);
    if (shared.is_active) keep(shared, records);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(shared.mutex);
    shared.is_complete = false;  // the launches that are lost have no time
  }
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  State& shared = state();
  keep_buffer(shared, buffer, valid_bytes);
  const std::lock_guard lock(shared.buffers_mutex);
  if (shared.lent.erase(buffer) == 0) return;  // another profiler's, from before this one began
  std::unique_ptr<std::uint8_t[]> ours(buffer);
  if (shared.free.size() < kMostFreeBuffers) shared.free.push_back(std::move(ours));
}

void enable(const Cupti& cupti) {
  check(cupti, cupti.cuptiActivityRegisterTimestampCallback(&steady_ns), "cuptiActivityRegisterTimestampCallback");
  check(cupti, cupti.cuptiActivityRegisterCallbacks(&lend_buffer, &take_buffer), "cuptiActivityRegisterCallbacks");
  check(cupti, cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
        "cuptiActivityEnable (CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)");
  check(cupti, cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER),
        "cuptiActivityEnable (CUPTI_ACTIVITY_KIND_DRIVER)");
  for (const CUpti_ActivityKind kind : kMemoryKinds)
    check(cupti, cupti.cuptiActivityEnable(kind), "cuptiActivityEnable (copies and sets)");
  // One by one, the other way round, nothing is taken down at all.
  for (CUpti_CallbackId call = 1; call < CUPTI_DRIVER_TRACE_CBID_SIZE; ++call)
    if (cupti.enable_driver_call != nullptr && !is_launch(call)) cupti.enable_driver_call(call, 0);
}

/// CUPTI stays attached to the driver, which costs each launch up to half a microsecond from then on. cuptiFinalize
/// would take it away, under the feet of threads that are inside CUDA and of other profilers.
void disable(const Cupti& cupti) noexcept {
  for (CUpti_CallbackId call = 1; call < CUPTI_DRIVER_TRACE_CBID_SIZE; ++call)
    if (cupti.enable_driver_call != nullptr && is_launch(call)) cupti.enable_driver_call(call, 0);
  for (const CUpti_ActivityKind kind : kMemoryKinds) cupti.cuptiActivityDisable(kind);
  cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER);
  cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cupti.cuptiActivityRegisterTimestampCallback(&system_ns);
}

void end() noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return;  // CUPTI's threads may have held the locks
  State& shared = state();
  const cuda::RelaxedCapture relaxed;
  disable(shared.cupti);
  {
    const std::lock_guard lock(shared.mutex);
    shared.is_active = false;
    shared.kernels = {};
    shared.launches = {};
    shared.memory = {};
  }
  {
    const std::lock_guard lock(shared.buffers_mutex);
    shared.lent.clear();  // where another profiler has begun meanwhile, these went to it
  }
  shared.ended.notify_one();
}

}  // namespace

KernelActivity::KernelActivity(std::size_t max_launches) {
  const Cupti cupti = load_cupti();
  if (device_count(DeviceType::cuda) == 0)
    throw DeviceError("timing kernels by CUPTI", 0, device_problem(DeviceType::cuda));
  const cuda::RelaxedCapture relaxed;  // CUPTI allocates, while this thread may be recording another stream
  State& shared = state();
  {
    std::unique_lock lock(shared.mutex);
    shared.ended.wait(lock, [&] { return !shared.is_active; });
    shared.is_active = true;
    shared.cupti = cupti;
    shared.max_launches = max_launches;
    shared.is_complete = true;
  }
  try {
    enable(cupti);
  } catch (...) {
    end();
    throw;
  }
  is_active_ = true;
}

KernelActivity::~KernelActivity() {
  if (is_active_) end();
}

bool KernelActivity::flush() {
  State& shared = state();
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return true;
  const cuda::RelaxedCapture relaxed;
  shared.cupti.cuptiActivityFlushAll(0);
  const std::lock_guard lock(shared.buffers_mutex);
  return shared.lent.empty();
}

bool KernelActivity::is_complete() const {
  State& shared = state();
  const std::lock_guard lock(shared.mutex);
  return shared.is_complete;
}

std::vector<MemoryActivity> KernelActivity::memory() const {
  State& shared = state();
  const std::lock_guard lock(shared.mutex);
  return shared.memory;
}

std::vector<LaunchActivity> KernelActivity::launches() const {
  State& shared = state();
  std::vector<LaunchActivity> joined;
  {
    const std::lock_guard lock(shared.mutex);
    joined.reserve(shared.launches.size());
    for (const Launch& launch : shared.launches) {
      LaunchActivity& one = joined.emplace_back();
      one.thread = launch.thread;
      one.launched = time_of(launch.launched);
      const auto found = shared.kernels.find(launch.correlation);
      if (found == shared.kernels.end()) continue;
      one.start = time_of(found->second.start);
      one.end = time_of(found->second.end);
      one.has_run = true;
    }
  }
  std::sort(joined.begin(), joined.end(), [](const LaunchActivity& a, const LaunchActivity& b) {
    return std::pair(a.thread, a.launched) < std::pair(b.thread, b.launched);
  });
  return joined;
}

}  // namespace kiln
