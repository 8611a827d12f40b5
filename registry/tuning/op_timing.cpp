#include "registry/tuning/op_timing.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/event_timer.hpp"

namespace kiln {
namespace {

/// Below this, what a timer and a launch add to an interval would count.
constexpr double kShortestSampleUs = 50;
constexpr int kMostCallsPerSample = 64;

}  // namespace

CallTiming::CallTiming(std::function<void(Stream)> call, Stream stream, MeasuringPolicy policy)
    : stream_(stream), policy_(policy) {
  if (!stream.device.is_cuda()) policy_ = default_measuring_policy(stream.device);
  if (policy_.l2 == MeasuringPolicy::L2::hot) {
    const auto shortest_us = [&](int samples) {
      const TimingOptions options{.warmup = 0, .samples = samples, .flush_l2 = false};
      return summarize(time_us(stream_, [&] { call(stream_); }, options)).min_us;
    };
    double call_us = shortest_us(1);
    if (call_us < kShortestSampleUs * kMostCallsPerSample) call_us = shortest_us(3);
    calls_per_sample_ =
        std::clamp(static_cast<int>(std::ceil(kShortestSampleUs / std::max(call_us, 1e-3))), 1, kMostCallsPerSample);
  }
  if (policy_.launch == MeasuringPolicy::Launch::graph && stream_.handle == nullptr)
    stream_ = capture_stream_.emplace(stream_.device).get();
  add_call(std::move(call));
}

void CallTiming::add_call(std::function<void(Stream)> call) {
  if (policy_.launch == MeasuringPolicy::Launch::graph)
    graphs_.push_back(capture(stream_, [&] {
      for (int repeat = 0; repeat < calls_per_sample_; ++repeat) call(stream_);
    }));
  calls_.push_back(std::move(call));
}

std::vector<double> CallTiming::samples_us(int count) const {
  std::vector<double> samples = time_us(
      stream_, [&] { run(); }, {.warmup = 0, .samples = count, .flush_l2 = policy_.l2 == MeasuringPolicy::L2::flushed});
  for (double& sample : samples) sample /= calls_per_sample_;
  return samples;
}

void CallTiming::run() const {
  const std::size_t call = next_++ % calls_.size();
  if (!graphs_.empty()) {
    graphs_[call].launch(stream_);
    return;
  }
  for (int repeat = 0; repeat < calls_per_sample_; ++repeat) calls_[call](stream_);
}

OpTiming::OpTiming(const ResolvedOp& op, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                   Stream stream, MeasuringPolicy policy)
    : CallTiming([op, ins = std::vector(inputs.begin(), inputs.end()),
                  outs = std::vector(outputs.begin(), outputs.end())](Stream on) { op(ins, outs, on); },
                 stream, policy) {}

MeasuringPolicy default_measuring_policy(Device device) noexcept {
  return {MeasuringPolicy::Launch::eager, device.is_cuda() ? MeasuringPolicy::L2::flushed : MeasuringPolicy::L2::hot};
}

}  // namespace kiln
