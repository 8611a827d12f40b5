#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"

namespace kiln {

/// A call that will be made: its tensors need their metadata only. `data` may be null, and stands for memory that
/// starts at a multiple of 16 bytes.
struct WarmUpCall {
  std::string op;
  std::vector<TensorView> inputs;
  Attributes attributes = {};
  std::vector<TensorView> outputs = {};  ///< as the call will be given them; empty: it allocates them
  std::optional<Config> config = {};
  std::optional<Device> device = {};  ///< of a call without tensors; otherwise it is that of the tensors
  /// As DispatchOptions has it; first_use looks for what is tuned, and tunes nothing.
  std::optional<TuningPolicy> tuning = {};
  /// As DispatchOptions has it: such calls have kernels of their own.
  bool overlap_previous = false;
  /// The rows of the first input (its last dimension but one) stand for any number of them, from one on: all kernels
  /// that such calls choose by default are loaded. Of a linear layer it is the weight that this names.
  bool any_rows = false;
};

/// Plans, compiles and loads what these calls need, so that a capture, or the first request, finds everything warm.
/// Works on `num_threads` threads (0: one for each core, 16 at most). Everything is tried before the first call that
/// failed is reported: UsageError, CompileError or DeviceError as dispatch_gpu_op, naming the call.
void warm_up(std::span<const WarmUpCall> calls, int num_threads = 0);

}  // namespace kiln
