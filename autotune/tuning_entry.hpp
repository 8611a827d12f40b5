#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/evidence.hpp"
#include "core/attributes.hpp"
#include "core/config.hpp"
#include "core/content_hash.hpp"
#include "core/dtype.hpp"
#include "core/shape_key.hpp"

namespace kiln {

/// What a tuned config holds for. Two keys that differ in anything are two entries.
struct TuningKey {
  std::string device_model;     ///< DeviceInfo::name: "NVIDIA H200". Not the architecture, which unequal devices share
  std::int64_t processors = 0;  ///< SMs; usable threads of a CPU
  std::string op;
  std::string variant;
  std::string dtypes;  ///< of the inputs: dtypes_text()
  ShapeKey shapes;
  std::string attributes;   ///< attributes_text()
  std::string kernel_hash;  ///< of the kernel's source and everything it includes, in hexadecimal digits
  std::string space_hash;   ///< space_hash() of the variant's config space
  friend bool operator==(const TuningKey&, const TuningKey&) = default;
};

std::string dtypes_text(std::span<const DType> dtypes);     ///< "bf16, f32"
std::string attributes_text(const Attributes& attributes);  ///< "dim=-1, keepdim=false"
std::string space_hash(const ConfigSpace& space);           ///< 32 digits, of ConfigSpace::signature()
ContentHash hash_of(const TuningKey& key);                  ///< names the entry in `kiln cache`
std::string to_string(const TuningKey& key);                ///< "matmul sm90 (bf16, bf16) 4096x4096, 4096x1024"

/// How a time was taken. A config that wins when kernels follow each other in a graph may lose when each is launched
/// on its own.
struct MeasuringPolicy {
  enum class Launch { eager, graph };
  enum class L2 { hot, flushed };
  Launch launch = Launch::eager;
  L2 l2 = L2::hot;
  friend bool operator==(const MeasuringPolicy&, const MeasuringPolicy&) = default;
};
std::string to_string(const MeasuringPolicy& policy);  ///< "graph, flushed L2"
/// The inverse; "graph" or "hot" alone leave the other part as `fallback` has it. UsageError(value) that names the
/// words.
MeasuringPolicy parse_measuring_policy(std::string_view text, MeasuringPolicy fallback = {});

/// What one tuning found the config it chose to take.
struct PastMeasurement {
  std::int64_t date_unix_s = 0;
  Config config;
  double median_us = 0;
  Interval interval_us;
  MeasuringPolicy policy;
  std::string driver;
  friend bool operator==(const PastMeasurement&, const PastMeasurement&) = default;
};

inline constexpr std::size_t kHistoryLength = 10;

/// A tuned choice with the evidence for it.
struct TuningEntry {
  TuningKey key;
  Config config;  ///< the winner; among `tried` with a time
  Config default_config;
  Interval relative{1, 1};  ///< the winner's time over the default's, measured side by side: 0.8 takes a fifth less
  MeasuringPolicy policy;
  std::string strategy;   ///< the search's: "exhaustive"
  bool complete = false;  ///< as TuningResult has it
  std::string driver;     ///< its version; empty on the CPU
  std::string compiler;   ///< Compiler::identity(): "nvrtc 13.0"
  std::int64_t date_unix_s = 0;
  std::vector<CandidateEvidence> tried;  ///< best first, then those without a time
  std::vector<PastMeasurement> history;  ///< oldest first, the last kHistoryLength of this key, this one included
  std::string other_fields;  ///< a JSON object of what a later Kiln wrote and this one does not know; empty: nothing

  /// nullptr when the config was not tried, or has no time.
  const CandidateEvidence* evidence_of(const Config& tried_config) const noexcept;
};

/// What a tuning found, as an entry without history. The search's date, policy and versions are the caller's to fill
/// in. Candidates that never had their turn are left out, and those ruled out, which are ruled out anew each time.
TuningEntry make_entry(TuningKey key, const TuningResult& result);

/// "2026-11-20T19:00:00Z".
std::string format_date(std::int64_t unix_s);
/// nullopt for anything else.
std::optional<std::int64_t> parse_date(std::string_view text);

}  // namespace kiln
