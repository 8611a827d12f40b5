#pragma once

#include <functional>

#include "core/device.hpp"
#include "core/dtype.hpp"

namespace kiln {

/// The most that a device can do; 0 where it is not known.
struct RooflinePeak {
  double bandwidth_gb_s = 0;
  double tflop_s = 0;
};
/// The peaks of a device for calls whose first input is of a dtype.
using RooflinePeaks = std::function<RooflinePeak(Device, DType)>;
/// What is known without measuring: the bandwidth as the device states it (DeviceInfo), else what was measured in
/// this process; for arithmetic what was measured.
RooflinePeak known_peak(Device device, DType dtype);

/// For known_peak, from whoever measured it (registry/inspection/measured_peak.hpp).
void set_measured_bandwidth(Device device, double gb_s);
void set_measured_arithmetic(Device device, DType dtype, double tflop_s);

}  // namespace kiln
