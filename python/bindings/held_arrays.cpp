#include "python/bindings/held_arrays.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "core/errors.hpp"
#include "runtime/event.hpp"

namespace kiln::python {
namespace {

using Owners = std::vector<std::shared_ptr<void>>;

/// What transfers hold, by stream, whose work ends in the order in which it was enqueued: so only the oldest of each
/// are asked about.
class HeldArrays {
 public:
  void add(Stream stream, Owners owners) {
    auto done = std::make_shared<Event>(stream.device);
    done->record(stream);
    const std::lock_guard lock(mutex_);
    held_[{stream.device, stream.handle}].push_back({std::move(done), std::move(owners)});
    count_.fetch_add(1, std::memory_order_relaxed);
  }

  void release_done() noexcept {
    if (count_.load(std::memory_order_relaxed) == 0) return;
    const std::vector<Held> done = take_done();  // let go of after the lock, for that takes the GIL
    count_.fetch_sub(done.size(), std::memory_order_relaxed);
  }

  void wait(Device device) {
    std::vector<std::shared_ptr<Event>> last;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [stream, held] : held_)
        if (stream.first == device && !held.empty()) last.push_back(held.back().done);
    }
    for (const std::shared_ptr<Event>& event : last) event->synchronize();
    release_done();
  }

 private:
  struct Held {
    std::shared_ptr<Event> done;
    Owners owners;
  };

  std::vector<Held> take_done() noexcept {
    std::vector<Held> done;
    try {
      const std::lock_guard lock(mutex_);
      for (auto& [stream, held] : held_)
        while (!held.empty() && held.front().done->is_done()) {
          done.push_back(std::move(held.front()));
          held.pop_front();
        }
      std::erase_if(held_, [](const auto& entry) { return entry.second.empty(); });
    } catch (const std::exception&) {
      // A device that failed, or a child of a fork: what is held stays, since nobody knows what still writes to it.
      return done;
    }
    return done;
  }

  std::mutex mutex_;
  std::map<std::pair<Device, void*>, std::deque<Held>> held_;
  std::atomic<std::size_t> count_{0};
};

HeldArrays& held_arrays() {
  static auto* const held = new HeldArrays;  // never destroyed: transfers may run while the process exits
  return *held;
}

}  // namespace

void hold_until_done(Stream stream, std::vector<std::shared_ptr<void>> owners) {
  held_arrays().release_done();
  held_arrays().add(stream, std::move(owners));
}

void release_done_transfers() noexcept {
  held_arrays().release_done();
}

void wait_for_transfers(Device device) {
  held_arrays().wait(device);
}

}  // namespace kiln::python
