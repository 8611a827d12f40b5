#include "runtime/event_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

std::vector<double> time_cpu(const std::function<void()>& body, int samples) {
  std::vector<double> samples_us;
  samples_us.reserve(static_cast<std::size_t>(samples));
  for (int i = 0; i < samples; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    samples_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return samples_us;
}

/// Enqueues every sample before it waits for any: the device then runs ahead of the host by a flush or more, so the
/// host's launch cost stays out of short intervals.
std::vector<double> time_cuda(Stream stream, const std::function<void()>& body, int samples, bool flush_l2) {
  const CurrentDevice current(stream.device);
  Tensor flush;
  const std::int64_t l2_bytes = device_info(stream.device).l2_bytes;
  if (flush_l2 && l2_bytes > 0) flush = empty({2 * l2_bytes}, DType::u8, stream);
  std::vector<Event> starts, stops;
  for (int i = 0; i < samples; ++i) {
    starts.emplace_back(stream.device, true);
    stops.emplace_back(stream.device, true);
  }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (flush.data() != nullptr) memset_bytes(flush, static_cast<std::uint8_t>(i), stream);
    starts[i].record(stream);
    body();
    stops[i].record(stream);
  }
  synchronize(stream);
  std::vector<double> samples_us;
  for (std::size_t i = 0; i < starts.size(); ++i) samples_us.push_back(elapsed_us(starts[i], stops[i]));
  return samples_us;
}

/// The value below which a fraction of the sorted samples lies, between neighbours in proportion.
double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::vector<double> time_us(Stream stream, const std::function<void()>& body, const TimingOptions& options) {
  if (options.samples < 1 || options.warmup < 0)
    throw_value_error(
        fmt::format("timing with samples={} and warmup={}; expected 1 or more samples and 0 or more warm-up calls",
                    options.samples, options.warmup));
  if (stream.device.is_cuda()) require_cuda_device(stream.device);
  if (is_capturing(stream))
    throw_value_error("a stream that is being captured cannot be timed; time the launches of the graph");
  for (int i = 0; i < options.warmup; ++i) body();
  synchronize(stream);
  return stream.device.is_cuda() ? time_cuda(stream, body, options.samples, options.flush_l2)
                                 : time_cpu(body, options.samples);
}

TimingSummary summarize(std::vector<double> samples_us) {
  if (samples_us.empty()) throw_value_error("there are no samples to summarise");
  std::sort(samples_us.begin(), samples_us.end());
  return {percentile(samples_us, 0.5), samples_us.front(), percentile(samples_us, 0.1), percentile(samples_us, 0.9)};
}

}  // namespace kiln
