#include "runtime/event.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/errors.hpp"
#include "runtime/device_access.hpp"
#include "runtime/observers.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#endif

namespace kiln {

Event::Event(Device device, bool is_timed) : device_(device), is_timed_(is_timed) {
  if (!device.is_cuda()) return;
  require_cuda_device(device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
  handle_ = cuda::create_event(is_timed);
#endif
}

Event::~Event() {
#if KILN_HAS_CUDA
  if (handle_ == nullptr) return;
  const cuda::CurrentContext current(cuda::primary_context(device_.index), device_.index);
  cuda::destroy_event(handle_);
#endif
}

Event::Event(Event&& other) noexcept
    : device_(other.device_),
      is_timed_(other.is_timed_),
      is_captured_(other.is_captured_),
      handle_(std::exchange(other.handle_, nullptr)),
      recorded_at_(other.recorded_at_) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(is_timed_, other.is_timed_);
  std::swap(is_captured_, other.is_captured_);
  std::swap(handle_, other.handle_);
  std::swap(recorded_at_, other.recorded_at_);
  return *this;
}

void Event::record(Stream stream) {
  if (stream.device != device_)
    throw_value_error(fmt::format("an event of {} cannot be recorded on a stream of {}", to_string(device_),
                                  to_string(stream.device)));
  is_captured_ = is_observed() && is_capturing(stream);
#if KILN_HAS_CUDA
  if (handle_ != nullptr) {
    const cuda::CurrentContext current(cuda::primary_context(device_.index), device_.index);
    cuda::record_event(handle_, stream.handle);
    return;
  }
#endif
  recorded_at_ = std::chrono::steady_clock::now();
}

void Event::wait([[maybe_unused]] Stream stream) const {
#if KILN_HAS_CUDA
  if (handle_ == nullptr) return;
  if (!stream.device.is_cuda()) {
    if (is_capturing(stream))
      throw_value_error(
          fmt::format("a graph of the CPU cannot hold a wait for {}: wait before each launch", to_string(device_)));
    synchronize();
    return;
  }
  require_cuda_device(stream.device);
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  cuda::wait_for_event(stream.handle, handle_);
#endif
}

/// Asking the driver would spoil the capture.
void Event::refuse_captured() const {
  if (is_captured_) [[unlikely]]
    throw_value_error(
        "this event was last recorded while its stream was being captured: it is a place in the graph, which the host "
        "cannot wait for; record it again after a launch of the graph");
}

bool Event::is_done() const {
  refuse_captured();
#if KILN_HAS_CUDA
  if (handle_ != nullptr) {
    const cuda::CurrentContext current(cuda::primary_context(device_.index), device_.index);
    const cuda::RelaxedCapture relaxed;  // asking is forbidden while some other stream is captured in global mode
    return cuda::event_is_done(handle_);
  }
#endif
  return true;
}

void Event::synchronize() const {
  refuse_captured();
#if KILN_HAS_CUDA
  if (handle_ == nullptr) return;
  const cuda::CurrentContext current(cuda::primary_context(device_.index), device_.index);
  const cuda::RelaxedCapture relaxed;  // as in is_done
  cuda::synchronize_event(handle_);
#endif
}

double elapsed_us(const Event& start, const Event& stop) {
  start.refuse_captured();
  stop.refuse_captured();
  if (start.device_ != stop.device_ || !start.is_timed_ || !stop.is_timed_)
    throw_value_error(
        fmt::format("the time between two events of {} and {} was asked for; both must be of one device and timed, as "
                    "in Event(device, true)",
                    to_string(start.device_), to_string(stop.device_)));
#if KILN_HAS_CUDA
  if (start.handle_ != nullptr) {
    const cuda::CurrentContext current(cuda::primary_context(start.device_.index), start.device_.index);
    return cuda::elapsed_us(start.handle_, stop.handle_);
  }
#endif
  return std::chrono::duration<double, std::micro>(stop.recorded_at_ - start.recorded_at_).count();
}

}  // namespace kiln
