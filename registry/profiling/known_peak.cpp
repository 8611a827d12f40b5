#include "registry/profiling/known_peak.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "runtime/device_info.hpp"

namespace kiln {
namespace {

struct MeasuredRates {
  std::mutex mutex;
  std::map<Device, double> gb_s;
  std::map<std::pair<Device, DType>, double> tflop_s;
};

MeasuredRates& measured_rates() {
  static auto* const rates = new MeasuredRates;  // never destroyed: threads may still ask while the process exits
  return *rates;
}

}  // namespace

RooflinePeak known_peak(Device device, DType dtype) {
  RooflinePeak peak{device_info(device).peak_bandwidth_gb_s, 0};
  MeasuredRates& measured = measured_rates();
  const std::lock_guard lock(measured.mutex);
  if (const auto found = measured.gb_s.find(device); found != measured.gb_s.end() && peak.bandwidth_gb_s <= 0)
    peak.bandwidth_gb_s = found->second;
  if (const auto found = measured.tflop_s.find({device, dtype}); found != measured.tflop_s.end())
    peak.tflop_s = found->second;
  return peak;
}

void set_measured_bandwidth(Device device, double gb_s) {
  MeasuredRates& measured = measured_rates();
  const std::lock_guard lock(measured.mutex);
  measured.gb_s[device] = gb_s;
}

void set_measured_arithmetic(Device device, DType dtype, double tflop_s) {
  MeasuredRates& measured = measured_rates();
  const std::lock_guard lock(measured.mutex);
  measured.tflop_s[{device, dtype}] = tflop_s;
}

}  // namespace kiln
