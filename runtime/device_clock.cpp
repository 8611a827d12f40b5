#include "runtime/device_clock.hpp"

#include <cmath>

#include "runtime/stream.hpp"

namespace kiln {

DeviceClock::DeviceClock(Device device) : reference_(device, /*is_timed=*/true) {
  const OwnedStream stream(device);
  // The first wait of a thread takes longer than the others.
  for (int attempt = 0; attempt < 2; ++attempt) {
    reference_.record(stream);
    reference_.synchronize();
    reference_time_ = std::chrono::steady_clock::now();
  }
}

std::chrono::steady_clock::time_point DeviceClock::time_of(const Event& event) const {
  return reference_time_ + std::chrono::nanoseconds(std::llround(elapsed_us(reference_, event) * 1e3));
}

}  // namespace kiln
