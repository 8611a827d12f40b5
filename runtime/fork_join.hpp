#pragma once

#include <functional>
#include <initializer_list>
#include <span>

#include "runtime/stream.hpp"

namespace kiln {

/// Calls each branch, in order and on this thread, with a stream of its own: what it enqueues there starts after the
/// work on `stream` so far and runs beside the other branches, and work enqueued on `stream` afterwards starts after
/// all of them. Branches are for kernels that leave a part of the device idle. They may fork again.
///
/// Branch streams are lent from a pool of the process, have `stream`'s priority, and are the branch's until fork_join
/// returns. Under capture they are captured too. Memory that was allocated on one (`empty`, outputs of a dispatch) is
/// freed on `stream` once the branches are joined, so results may be used and dropped there; memory from before the
/// fork must not be dropped within a branch.
///
/// On the CPU every branch is given `stream` and is done when it returns: kernels there use all cores by themselves.
///
/// When a branch throws, later ones are not called; those begun are joined, so that a capture goes on, and the
/// exception passes through. UsageError(value) for an empty function; DeviceError.
void fork_join(Stream stream, std::span<const std::function<void(Stream)>> branches);
inline void fork_join(Stream stream, std::initializer_list<std::function<void(Stream)>> branches) {
  fork_join(stream, std::span(branches.begin(), branches.size()));
}

}  // namespace kiln
