#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "core/device.hpp"
#include "core/dtype.hpp"

namespace kiln {

/// What one op reached on one device.
struct MeasuredRate {
  std::string op;
  std::string call;  ///< "f32 (89478485), f32 (89478485)"
  Config config;
  double bytes = 0;  ///< of each call, read and written
  double flops = 0;
  double best_us = 0;  ///< the shortest; whatever else the machine does takes away from it, and nothing adds
  double median_us = 0;
  std::int64_t samples = 0;

  double gb_s() const { return bytes / best_us * 1e-3; }
  double tflop_s() const { return flops / best_us * 1e-6; }
};

/// What a device's memory gives Kiln's own kernels.
struct MeasuredPeak {
  Device device;
  std::string device_name;
  double bandwidth_gb_s = 0;        ///< of the best of `rates`
  std::int64_t cache_bytes = 0;     ///< last_level_cache_bytes; 0 when unknown
  std::int64_t data_bytes = 0;      ///< of the tensors of each call
  bool exceeds_cache = false;       ///< data_bytes is 4 times cache_bytes; not where memory is short
  std::vector<MeasuredRate> rates;  ///< one for each op, best first
};

/// The bandwidth of a device's memory as measured on it, by the best of ops that read (sum), read and write (copy), and
/// read two and write one (add), each with the best of a few configs, over random data (zeros take less power, and
/// raise a GPU's clock) of at least four times the last-level cache. `add` is among them since on CPUs it writes past
/// the caches and copy does not: a peak that ordinary ops exceed would be none. Takes some seconds once per process and
/// device, and compiles a few kernels once per machine; threads that ask meanwhile wait. UsageError(value) for a device
/// that is not there; DeviceError.
const MeasuredPeak& measured_peak(Device device);
/// What measured_peak found before; null where it has not, or is at it. Measures nothing.
const MeasuredPeak* find_measured_peak(Device device);

/// The most that matmul reaches on square matrices of `dtype`, of some sizes, as dispatched; kept like measured_peak.
/// UsageError as matmul for dtypes that it does not take.
const MeasuredRate& measured_matmul_peak(Device device, DType dtype);
const MeasuredRate* find_measured_matmul_peak(Device device, DType dtype);  ///< as find_measured_peak

/// "4512 GB/s by sum f32 (268435456) with BLOCK_M=1 ..., best of 60 calls over 1.0 GiB each (median 4498)".
std::string to_string(const MeasuredPeak& peak);

}  // namespace kiln
