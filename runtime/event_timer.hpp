#pragma once

#include <functional>
#include <vector>

#include "runtime/stream.hpp"

namespace kiln {

struct TimingOptions {
  int warmup = 5;
  int samples = 20;
  bool flush_l2 = true;  ///< CUDA: overwrite twice the L2 between samples, outside the timed interval. CPU: ignored
};

/// Times `body`, which enqueues work on `stream`, once per sample: device events on CUDA, the steady clock on the CPU.
/// Microseconds, in order.
std::vector<double> time_us(Stream stream, const std::function<void()>& body, const TimingOptions& options = {});

struct TimingSummary {
  double median_us = 0, min_us = 0, p10_us = 0, p90_us = 0;
};
TimingSummary summarize(std::vector<double> samples_us);

}  // namespace kiln
