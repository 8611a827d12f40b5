#include "runtime/device_clock.hpp"

#include <cmath>

#include "runtime/stream.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_driver.hpp"
#endif

namespace kiln {

DeviceClock::DeviceClock(Device device) : reference_(device, /*is_timed=*/true) {
#if KILN_HAS_CUDA
  const cuda::RelaxedCapture relaxed;  // this thread may be recording another stream
#endif
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
