#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "registry/plan/call_observer.hpp"
#include "runtime/stream.hpp"

namespace kiln {

using ProfileTime = std::chrono::steady_clock::time_point;
using ProfileDuration = std::chrono::steady_clock::duration;

inline double to_us(ProfileDuration duration) noexcept {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// One dispatched call, or one launch of a graph.
struct CallRecord {
  const Plan* plan = nullptr;  ///< null: a graph
  Stream stream;
  ProfileTime start, end;
  ProfileTime launch_start, launch_end;  ///< enqueueing, which on the CPU is running
  ProfileDuration cold{};                ///< of the call: planning, compiling, loading, tuning
  ProfileDuration own{};                 ///< of the call: the profiler's
  ProfileTime device_start, device_end;  ///< where device_us is known
  double device_us = -1;                 ///< that its kernels ran; negative: not known
  std::uint32_t region = 0;
  bool captured = false;  ///< into a graph: nothing ran

  /// What the host spent on the call beside running it, cold work and the profiler.
  double host_us() const noexcept;
};

struct PhaseRecord {
  ProfilePhase phase = ProfilePhase::plan;
  std::string op;
  std::string kernel;  ///< empty where it is about all of them
  ProfileTime start, end;
  double self_us = 0;  ///< without the phases inside it
  std::uint32_t region = 0;
};

/// A region by its name and the one around it. Number 0 is outside of all.
struct RegionNode {
  std::string name;
  std::uint32_t parent = 0;
  std::map<std::string, std::uint32_t, std::less<>> inner = {};  ///< numbers of the regions in it, by name
};
/// "decode/attention"; empty for number 0.
std::string region_path(const std::vector<RegionNode>& nodes, std::uint32_t region);

struct RegionRecord {
  std::uint32_t region = 0;
  ProfileTime start, end;
};

/// What one thread did while a profiler ran.
struct ThreadRecords {
  int thread_id = 0;
  std::uint32_t pthread_id = 0;  ///< as CUPTI names it: the lower half of pthread_self
  std::string thread_name;
  std::vector<CallRecord> calls;
  std::vector<PhaseRecord> phases;
  std::vector<RegionRecord> regions;
  std::vector<RegionNode> region_nodes{{}};
  std::unordered_map<const Plan*, std::shared_ptr<const Plan>> plans;  ///< of `calls`
  std::size_t dropped = 0;                                             ///< calls and regions there was no room for
  std::size_t failed = 0;                                              ///< calls that threw
};

}  // namespace kiln
