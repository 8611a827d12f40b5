#include "tests/stress/memory_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "runtime/memory_usage.hpp"

namespace kiln::test {
namespace {

constexpr double kMib = 1 << 20;

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMib;
}

/// Of all processes on the GPU: the driver tells no other number.
double used_mib(Device device) {
  return device.is_cuda() ? static_cast<double>(memory_usage(device).used_bytes) / kMib : 0;
}

}  // namespace

void MemoryWatch::sample(double progress) {
  Sample& sample = samples_.emplace_back(Sample{progress, resident_mib(), {}});
  for (const Device device : devices_) sample.device_mib.push_back(used_mib(device));
}

std::string MemoryWatch::last() const {
  std::string text = fmt::format("resident {:.1f} MiB", samples_.back().resident_mib);
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].is_cuda())
      text += fmt::format(", {} {:.1f} MiB", to_string(devices_[i]), samples_.back().device_mib[i]);
  return text;
}

double MemoryWatch::growth_mib() const {
  // A short run may have no sample just there: the next one before the end then.
  const auto mean = [&](double from, double to, auto value) {
    double sum = 0;
    int count = 0;
    for (const Sample& sample : samples_)
      if (sample.progress >= from && (sample.progress <= to || count == 0)) {
        sum += value(sample);
        ++count;
      }
    return count > 0 ? sum / count : value(samples_.back());
  };
  const auto growth = [&](auto value) { return mean(0.9, 1.0, value) - mean(0.5, 0.6, value); };
  double most = growth([](const Sample& sample) { return sample.resident_mib; });
  for (std::size_t i = 0; i < devices_.size(); ++i)
    most = std::max(most, growth([i](const Sample& sample) { return sample.device_mib[i]; }));
  return most;
}

}  // namespace kiln::test
