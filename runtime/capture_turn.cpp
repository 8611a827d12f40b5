#include "runtime/capture_turn.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr std::chrono::seconds kLongestCapture{30};

struct Turns {
  std::mutex mutex;
  std::condition_variable changed;
  struct OfDevice {
    int captures = 0;
    int waits = 0;
    int waiting = 0;  ///< for their turn to wait
  };
  std::map<int, OfDevice> devices;  ///< by ordinal
};

/// Never destroyed: threads may still work while the process exits.
Turns& turns() {
  static auto* const all = new Turns;
  return *all;
}

/// Captures of this thread on any device. One that holds a turn must not queue behind those who wait for it.
thread_local int captures_of_this_thread = 0;

}  // namespace

CaptureTurn::CaptureTurn(Device device) : device_(device) {
  Turns& all = turns();
  std::unique_lock lock(all.mutex);
  Turns::OfDevice& here = all.devices[device.index];
  all.changed.wait(lock, [&] { return here.waits == 0 && (here.waiting == 0 || captures_of_this_thread > 0); });
  ++here.captures;
  ++captures_of_this_thread;
}

CaptureTurn::~CaptureTurn() {
  --captures_of_this_thread;
  Turns& all = turns();
  const std::lock_guard lock(all.mutex);
  --all.devices[device_.index].captures;
  all.changed.notify_all();
}

DeviceWaitTurn::DeviceWaitTurn(Device device) : device_(device) {
  Turns& all = turns();
  std::unique_lock lock(all.mutex);
  Turns::OfDevice& here = all.devices[device.index];
  ++here.waiting;
  const bool is_free = all.changed.wait_for(lock, kLongestCapture, [&] { return here.captures == 0; });
  --here.waiting;
  all.changed.notify_all();
  if (!is_free)
    throw DeviceError("waiting for " + to_string(device), 0,
                      fmt::format("other threads have been capturing its streams for {} s, and nobody may wait for a "
                                  "device meanwhile; does a capture's body wait for this thread?",
                                  kLongestCapture.count()));
  ++here.waits;
}

DeviceWaitTurn::~DeviceWaitTurn() {
  Turns& all = turns();
  const std::lock_guard lock(all.mutex);
  --all.devices[device_.index].waits;
  all.changed.notify_all();
}

}  // namespace kiln
