#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "runtime/stream_handle.hpp"

namespace kiln {

/// How many recordings and profilers of this process want to know of each launch. The hot path reads it with one
/// relaxed load and goes its ordinary way at zero. A flag for each kind was the alternative, and would be read one by
/// one.
inline std::atomic<std::uint32_t> active_observers{0};

inline bool is_observed() noexcept {
  return active_observers.load(std::memory_order_relaxed) != 0;
}

/// Counts as one observer while it lives.
class ObserverCount {
 public:
  ObserverCount() noexcept { active_observers.fetch_add(1, std::memory_order_relaxed); }
  ~ObserverCount() { active_observers.fetch_sub(1, std::memory_order_relaxed); }
  ObserverCount(const ObserverCount&) = delete;
  ObserverCount& operator=(const ObserverCount&) = delete;
};

/// What a profiler does around each launch of a graph, whose ops it does not see: it calls `launch` once. Null
/// before the first one; asked only where is_observed(). `is_recorded`: the launch becomes a part of another graph.
using GraphLaunchObserver = void (*)(Stream stream, bool is_recorded, const std::function<void()>& launch);
inline std::atomic<GraphLaunchObserver> graph_launch_observer{nullptr};

}  // namespace kiln
