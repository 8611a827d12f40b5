#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/attributes.hpp"
#include "core/tensor.hpp"
#include "registry/plan/call.hpp"

namespace kiln {

/// A call as a trace keeps it: everything but the data.
struct TracedCall {
  std::string op;
  DeviceType device = DeviceType::cpu;
  /// Without memory; none for one that is left out. Those in host memory that a GPU reads are on the CPU.
  std::vector<std::optional<TensorView>> inputs;
  Attributes attributes;  ///< those that differ from their defaults
};

/// One line of JSON.
std::string format_call(const TracedCall& call);
/// The inverse. UsageError(value) saying what is wrong with the line.
TracedCall parse_call(std::string_view line);

/// The distinct calls of a trace in the order they were first made. UsageError(value) for a file that cannot be read,
/// and for a line that is no call, with its number.
std::vector<TracedCall> read_trace(const std::string& path);

/// Appends a call to the file KILN_TRACE names, as one write, so that processes may share it; nothing when it is unset.
/// The dispatcher calls this once for each plan it makes, before anything runs. UsageError(value) naming the variable
/// when the file cannot be written.
void trace_call(const Call& call);

}  // namespace kiln
