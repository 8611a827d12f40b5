#pragma once

#include <cstdint>
#include <string>

#include "autotune/database_document.hpp"
#include "autotune/tuning_entry.hpp"
#include "tests/support/file_text.hpp"

/// Entries of an imaginary device, for tests of what keeps them.
namespace kiln::test {

inline constexpr const char* kDevice = "NVIDIA H200";
inline constexpr const char* kDeviceFile = "NVIDIA_H200.json";
inline constexpr std::int64_t kDate = 1795200000;  // 2026-11-20

inline TuningKey tuned_key(std::int64_t rows, const std::string& op = "matmul") {
  TuningKey key;
  key.device_model = kDevice;
  key.processors = 132;
  key.op = op;
  key.variant = "tile";
  key.dtypes = "bf16, bf16";
  const Dims a{rows, 4096};
  const Dims b{4096, 1024};
  const Dims* const inputs[] = {&a, &b};
  key.shapes = shape_key(inputs);
  key.attributes = "alpha=1.0, other='quo\"ted'";
  key.kernel_hash = "00112233445566778899aabbccddeeff";
  key.space_hash = "ffeeddccbbaa99887766554433221100";
  return key;
}

inline Config config_of(std::int64_t block) {
  return {{"BLOCK_M", block}, {"num_warps", 4}};
}

inline CandidateEvidence measured(const Config& config, double median_us) {
  CandidateEvidence evidence;
  evidence.config = config;
  evidence.outcome = Outcome::measured;
  evidence.median_us = median_us;
  evidence.interval_us = {median_us - median_us / 100, median_us + median_us / 100};
  evidence.relative = {median_us / 200 * 0.99, median_us / 200 * 1.01};
  evidence.samples = 40;
  evidence.warm_up_samples = 5;
  evidence.outliers = {40, 1, 0, 1.5};
  return evidence;
}

/// Block 128 takes `winner_us`, the default 200 us; one config failed.
inline TuningEntry tuned_entry(std::int64_t rows, double winner_us = 150, std::int64_t date_unix_s = kDate) {
  CandidateEvidence failed;
  failed.config = config_of(256);
  failed.outcome = Outcome::uncompiled;
  failed.reason = "too many registers: \"sm_90a\"";
  TuningEntry entry;
  entry.key = tuned_key(rows);
  entry.config = config_of(128);
  entry.default_config = config_of(64);
  entry.relative = {winner_us / 200 * 0.99, winner_us / 200 * 1.01};
  entry.policy = {MeasuringPolicy::Launch::graph, MeasuringPolicy::L2::flushed};
  entry.strategy = "exhaustive";
  entry.driver = "580.65.06";
  entry.compiler = "nvrtc 13.0";
  entry.date_unix_s = date_unix_s;
  entry.tried = {measured(config_of(128), winner_us), measured(config_of(64), 200), failed};
  return entry;
}

}  // namespace kiln::test
