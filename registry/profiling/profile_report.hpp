#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "registry/profiling/known_peak.hpp"
#include "registry/profiling/profile_memory.hpp"
#include "registry/profiling/time_distribution.hpp"

namespace kiln {

/// Calls of one op with the same dtypes, shapes and config on one device.
struct ProfileRow {
  std::string op;
  std::string dtypes;  ///< "f32" where all are the same, else "bf16, i64 -> bf16"
  std::string shapes;  ///< "4x1024, 1024 -> 4x1024"
  std::string config;  ///< empty: no tunables
  std::string variant;
  Device device;
  std::size_t count = 0;
  std::size_t captured = 0;      ///< of `count`: recorded into a graph, where nothing ran
  TimeDistribution device_time;  ///< of those whose time is known
  TimeDistribution host_time;    ///< the rest of the call on the host, without planning, compiling and tuning
  double bytes = 0, flops = 0;   ///< of one call, by the op's spec
  double gb_s = 0, tflop_s = 0;  ///< achieved; 0 where the spec or the time says nothing
  double roofline_share = 0;     ///< the shortest possible time over the mean; 0 where no peak is known
};

/// All calls of one op, and what was done to make them ready.
struct ProfileTotal {
  std::string op;
  std::size_t count = 0;
  double device_us = 0, host_us = 0;
  double plan_us = 0, compile_us = 0, load_us = 0, tune_us = 0;
};

struct ProfileRegionRow {
  std::string path;  ///< "decode/attention"
  TimeDistribution time;
  std::size_t calls = 0;  ///< inside it and its inner regions
  double device_us = 0;   ///< of those
};

struct ProfileReport {
  std::vector<ProfileRow> rows;           ///< most device time first
  std::vector<ProfileTotal> ops;          ///< most device time first
  std::vector<ProfileRegionRow> regions;  ///< in order of first use
  std::vector<ProfileMemoryRow> memory;   ///< most time first; where CUPTI times GPUs
  TimeDistribution graph_device_time, graph_host_time;
  double elapsed_us = 0;  ///< from start to stop
  std::size_t threads = 0;
  /// Over all ops and threads. Compiling is what the compiler took; finding a kernel on disk and loading it is loading.
  double plan_us = 0, compile_us = 0, load_us = 0, tune_us = 0;
  std::vector<Device> devices_without_peak;  ///< of rows that have a time, and no share for want of a peak
  std::string device_timing;  ///< how GPUs were timed: "by CUPTI", "by events: ..."; empty where none was met
  std::size_t untimed = 0;    ///< calls and graphs that ran on a GPU and whose time got lost
  std::size_t failed = 0;     ///< calls that threw; they are in no row
  std::size_t dropped = 0;    ///< records beyond ProfilerOptions::max_records
};

/// Tables for people.
std::string to_string(const ProfileReport& report);

class ProfileSession;
/// Of a session that was stopped.
ProfileReport make_report(const ProfileSession& session, const RooflinePeaks& peaks);

}  // namespace kiln
