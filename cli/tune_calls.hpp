#pragma once

#include <string>
#include <vector>

#include "cli/call_inputs.hpp"
#include "registry/tuning/call_trace.hpp"

namespace kiln::cli {

/// Which calls `kiln tune` is to tune: of one op or all, with shapes from the command line, a file or a trace.
struct TuneCallsText {
  CallText call;            ///< op: a name or "all"
  std::string shapes_file;  ///< empty: none
  std::string trace;        ///< empty: none
};

/// The calls in order, on `device`. One op without shapes, and "all": the ops' own examples. UsageError(value) naming
/// the option, or the file's line, that is wrong; each call was shown to its op.
std::vector<TracedCall> calls_to_tune(const TuneCallsText& text, Device device);

/// "matmul bf16 (4096, 4096), bf16 (4096, 4096), alpha=2".
std::string describe_call(const TracedCall& call);

}  // namespace kiln::cli
