#include "runtime/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"

namespace kiln {
namespace {

/// Recordings whose body this thread is in, innermost last.
thread_local std::vector<std::shared_ptr<Recording>> of_this_thread;

/// Recordings on GPUs, of every thread: streams that fork off may be another thread's.
struct CudaRecordings {
  std::atomic<int> count{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<Recording>> all;
};

CudaRecordings& cuda_recordings() {
  static auto* const recordings = new CudaRecordings;
  return *recordings;
}

std::shared_ptr<Recording> find_on_this_thread(Device device) noexcept {
  const auto found = std::find_if(of_this_thread.begin(), of_this_thread.end(),
                                  [&](const auto& recording) { return recording->stream().device == device; });
  return found == of_this_thread.end() ? nullptr : *found;
}

/// Work that the body of a recording of this thread enqueues where no recording is.
[[noreturn]] void refuse_outside_work(Stream stream, std::string_view what) {
  const char* const place = !stream.device.is_cuda()   ? "was called on"
                            : stream.handle == nullptr ? "was enqueued on the default stream of"
                                                       : "was enqueued on a stream that is not being captured, of";
  const bool is_recorded = find_on_this_thread(stream.device) != nullptr;
  throw_value_error(fmt::format(
      "'{}' {} {} in the body of a graph of {}, where it would run now and be in no graph: {}", what, place,
      to_string(stream.device), to_string((is_recorded ? stream : of_this_thread.back()->stream()).device),
      is_recorded ? "give it the stream that is being captured, or one that was forked off it (wait_stream, fork_join)"
                  : "do it before the capture or after each launch, or record it in a graph of its own"));
}

}  // namespace

std::shared_ptr<const RecordedCall> RecordedCall::with_tensors(std::span<const TensorView> /*inputs*/,
                                                               std::span<const TensorView> /*outputs*/) const {
  throw_not_implemented(
      fmt::format("it is {}, and only the tensors of ops can be exchanged: record the graph's body anew with "
                  "Graph::update(stream, body)",
                  to_string(describe())));
}

void RecordedCall::write_to(void* /*executable*/, std::span<void* const> /*nodes*/) const {}

Recording::Recording(Stream stream, std::uint64_t capture_id)
    : stream_(stream), capture_id_(capture_id), holdings_(std::make_shared<GraphHoldings>()) {
  holdings_->memory = std::make_shared<GraphMemory>();
}

std::shared_ptr<Recording> Recording::of(Stream stream) {
  if (!is_observed()) [[likely]]
    return nullptr;
  if (!stream.device.is_cuda()) return find_on_this_thread(stream.device);
  CudaRecordings& recordings = cuda_recordings();
  if (stream.handle == nullptr || recordings.count.load(std::memory_order_acquire) == 0) return nullptr;
  const std::uint64_t id = CudaBackend::capture_id(stream);
  if (id == 0) return nullptr;
  const std::lock_guard lock(recordings.mutex);
  const auto found = std::find_if(recordings.all.begin(), recordings.all.end(),
                                  [&](const auto& recording) { return recording->capture_id() == id; });
  return found == recordings.all.end() ? nullptr : *found;
}

std::shared_ptr<Recording> Recording::of_work(Stream stream, std::string_view what) {
  std::shared_ptr<Recording> found = of(stream);
  if (found != nullptr || of_this_thread.empty()) return found;
  // A capture of somebody else's holds the work. The default stream is in none, whatever the driver says of it while
  // others may not use it.
  if (stream.handle != nullptr) {
    require_cuda_device(stream.device);
    if (CudaBackend::is_capturing(stream)) return nullptr;
  }
  refuse_outside_work(stream, what);
}

bool Recording::is_on_this_thread(Device device) noexcept {
  return find_on_this_thread(device) != nullptr;
}

void Recording::add(std::shared_ptr<const RecordedCall> call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
}

void Recording::keep(const std::shared_ptr<void>& owner, const void* memory) {
  // A block of the graph's own memory must be free to serve again.
  if (owner == nullptr || holdings_->memory->contains(memory)) return;
  const std::lock_guard lock(mutex_);
  holdings_->owners.push_back(owner);
}

RecordingScope::RecordingScope(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {
  of_this_thread.push_back(recording_);
  if (!recording_->stream().device.is_cuda()) return;
  CudaRecordings& recordings = cuda_recordings();
  const std::lock_guard lock(recordings.mutex);
  recordings.all.push_back(recording_);
  recordings.count.store(static_cast<int>(recordings.all.size()), std::memory_order_release);
}

RecordingScope::~RecordingScope() {
  recording_->memory().close();
  std::erase(of_this_thread, recording_);
  if (!recording_->stream().device.is_cuda()) return;
  CudaRecordings& recordings = cuda_recordings();
  const std::lock_guard lock(recordings.mutex);
  std::erase(recordings.all, recording_);
  recordings.count.store(static_cast<int>(recordings.all.size()), std::memory_order_release);
}

}  // namespace kiln
