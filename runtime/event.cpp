#include "runtime/event.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"
#include "runtime/observers.hpp"
#include "runtime/recording.hpp"

namespace kiln {
namespace {

/// Which recording of Kiln's `stream` belongs to; 0 for none. Captures of others are not told apart from none: Kiln may
/// not have looked while their events were recorded.
std::uint64_t recording_id(Stream stream) {
  if (!is_observed()) return 0;
  const auto recording = Recording::of(stream);
  if (recording == nullptr) return 0;
  return stream.device.is_cuda() ? recording->capture_id() : 1;
}

}  // namespace

Event::Event(Device device, bool is_timed) : device_(device), is_timed_(is_timed) {
  if (!device.is_cuda()) return;
  require_cuda_device(device);
  handle_ = CudaBackend::create_event(device, is_timed);
}

Event::~Event() {
  if (handle_ != nullptr) CudaBackend::destroy_event(device_, handle_);
}

Event::Event(Event&& other) noexcept
    : device_(other.device_),
      is_timed_(other.is_timed_),
      capture_id_(other.capture_id_),
      handle_(std::exchange(other.handle_, nullptr)),
      recorded_at_(other.recorded_at_) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(is_timed_, other.is_timed_);
  std::swap(capture_id_, other.capture_id_);
  std::swap(handle_, other.handle_);
  std::swap(recorded_at_, other.recorded_at_);
  return *this;
}

void Event::record(Stream stream) {
  if (stream.device != device_)
    throw_value_error(fmt::format("an event of {} cannot be recorded on a stream of {}", to_string(device_),
                                  to_string(stream.device)));
  capture_id_ = recording_id(stream);
  if (handle_ != nullptr)
    CudaBackend::record_event(handle_, stream);
  else
    recorded_at_ = std::chrono::steady_clock::now();
}

void Event::wait(Stream stream) const {
  if (handle_ == nullptr) return;
  if (!stream.device.is_cuda()) {
    if (Recording::is_on_this_thread(stream.device))
      throw_value_error(
          fmt::format("a graph of the CPU cannot hold a wait for {}: wait before each launch", to_string(device_)));
    synchronize();
    return;
  }
  require_cuda_device(stream.device);
  if (is_observed()) [[unlikely]]
    refuse_to_cross(stream);
  CudaBackend::wait_for_event(stream, handle_);
}

/// The driver would refuse too, and spoil the capture. Only a stream of another device would be taken: recordings are
/// of one, where their memory is and which nobody waits for meanwhile.
void Event::refuse_to_cross(Stream stream) const {
  const std::uint64_t id = recording_id(stream);
  if (id == capture_id_) return;
  if (id != 0)
    throw_value_error(
        "a stream that is being captured cannot wait for an event that was not recorded in that capture: wait before "
        "the capture, or record the event in its body on a stream that was forked off the captured one");
  if (stream.handle == nullptr || CudaBackend::is_capturing(stream))
    throw_value_error(fmt::format(
        "an event that was recorded in a capture was to be waited for by {}, which cannot join that "
        "capture: wait on a stream that is not being captured, of {}",
        stream.handle == nullptr ? "the default stream" : "a stream of another capture", to_string(device_)));
  if (stream.device != device_)
    throw_value_error(
        fmt::format("a stream of {} cannot join a capture of {}, whose graph is of one device: capture a graph on each "
                    "device, and let streams wait for one another between their launches",
                    to_string(stream.device), to_string(device_)));
}

/// Asking the driver would spoil the capture.
void Event::refuse_captured() const {
  if (capture_id_ != 0) [[unlikely]]
    throw_value_error(
        "this event was last recorded while its stream was being captured: it is a place in the graph, which the host "
        "cannot wait for; record it again after a launch of the graph");
}

bool Event::is_done() const {
  refuse_captured();
  return handle_ == nullptr || CudaBackend::event_is_done(device_, handle_);
}

void Event::synchronize() const {
  refuse_captured();
  if (handle_ != nullptr) CudaBackend::synchronize_event(device_, handle_);
}

double elapsed_us(const Event& start, const Event& stop) {
  start.refuse_captured();
  stop.refuse_captured();
  if (start.device_ != stop.device_ || !start.is_timed_ || !stop.is_timed_)
    throw_value_error(
        fmt::format("the time between two events of {} and {} was asked for; both must be of one device and timed, as "
                    "in Event(device, true)",
                    to_string(start.device_), to_string(stop.device_)));
  if (start.handle_ != nullptr) return CudaBackend::elapsed_us(start.device_, start.handle_, stop.handle_);
  return std::chrono::duration<double, std::micro>(stop.recorded_at_ - start.recorded_at_).count();
}

}  // namespace kiln
