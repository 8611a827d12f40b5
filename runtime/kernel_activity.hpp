#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/memory_activity.hpp"

namespace kiln {

/// One launch, of a kernel or of a graph, and when its kernels ran on a GPU.
struct LaunchActivity {
  std::uint32_t thread = 0;  ///< that launched: the lower half of its pthread_self, or its gettid
  std::chrono::steady_clock::time_point launched{};      ///< while the driver's call ran
  std::chrono::steady_clock::time_point start{}, end{};  ///< of the first kernel to begin, and of the last one to end
  bool has_run = false;  ///< false, with no times: recorded into a graph, or a graph without kernels
};

/// The times of the process's launches, copies and sets while it lives, taken by the GPU and brought together by CUPTI.
/// Unlike events it puts nothing between the kernels of a stream, and does not count the host's launch where the stream
/// is idle. One at a time.
class KernelActivity {
 public:
  /// Waits for another one to end. More than `max_launches` are dropped. DeviceError where there is no GPU, where CUPTI
  /// cannot be found, and where it refuses.
  explicit KernelActivity(std::size_t max_launches);
  /// Ends it.
  ~KernelActivity();
  KernelActivity(const KernelActivity&) = delete;
  KernelActivity& operator=(const KernelActivity&) = delete;

  /// Asks CUPTI for what is complete. Whether that was all: no launch is on its way, of any thread.
  bool flush();
  /// Whether what has come so far is all there: neither CUPTI nor `max_launches` left a kernel out.
  bool is_complete() const;
  /// What has come so far, by thread and then by time.
  std::vector<LaunchActivity> launches() const;
  /// The copies and sets that have come so far, in no order; at most `max_launches` of them.
  std::vector<MemoryActivity> memory() const;

 private:
  bool is_active_ = false;
};

}  // namespace kiln
