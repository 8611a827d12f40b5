#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotune/sample_set.hpp"
#include "ops/op_spec.hpp"
#include "registry/inspection/measured_peak.hpp"

namespace kiln::cli {

/// One size of a sweep.
struct SweepPoint {
  std::int64_t value = 0;  ///< of the letter that grows
  std::string inputs;      ///< "x f32 (64, 4096)"
  double data_bytes = 0;   ///< of all tensors
  double bytes = 0;        ///< that a call reads and writes
  double flops = 0;
  double median_us = 0;
  Interval interval_us;
  std::int64_t samples = 0;
  std::optional<SkippedWork> skipped = {};  ///< of `bytes`; nullopt where no input selects work
  std::string config;
  std::string config_source;

  double gb_s() const { return bytes / median_us * 1e-3; }
  double tflop_s() const { return flops / median_us * 1e-6; }
};

/// A sweep, as far as it came.
struct SweepReport {
  std::string op;
  std::string variable;
  std::string pattern;  ///< the options that make the call
  std::string device, device_name, policy;
  const MeasuredPeak* peak = nullptr;
  const MeasuredRate* matmul_peak = nullptr;  ///< where calls compute more than they move
  std::vector<SweepPoint> points;             ///< smallest first
  std::string ended;                          ///< why larger sizes are not there; empty: they all are
};

/// What the points say together.
struct SweepSummary {
  bool is_compute_bound = false;  ///< the largest call computes more for each byte than the device does at its peaks
  std::size_t best = 0;           ///< the point with the best rate
  std::size_t saturated = 0;      ///< the smallest one that reaches 90% of it
  /// The largest of those at the start that take about as long as the first: their time is that of a launch. Unset:
  /// the second takes longer already.
  std::optional<std::size_t> launch_bound;
  std::optional<std::size_t> beyond_caches;  ///< the best of those with more data than the caches hold
};
/// `points` is not empty.
SweepSummary summarize_sweep(const SweepReport& report);

/// A table with a line for each size, and what they say together.
std::string to_text(const SweepReport& report);
/// The same numbers.
nlohmann::ordered_json to_json(const SweepReport& report);

}  // namespace kiln::cli
