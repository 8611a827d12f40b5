#pragma once

#include <span>
#include <string_view>

#include "registry/dispatch/dispatch.hpp"
#include "registry/tuning/op_tuning.hpp"

namespace kiln {

/// Finds the fastest config of the variant that serves a call, and records it. Candidates are compiled in parallel
/// ahead of being measured, and each one's output is compared with the default's before it is timed. The call's own
/// tensors are read only: results, and copies of inputs that the op changes and of what lies at addresses, are in
/// memory of the tuning's own. The choice is the default unless another config is faster for certain. One call at a
/// time is tuned in a process. Callbacks may call ops, which TuningPolicy::first_use does not tune then.
///
/// UsageError as dispatch_gpu_op, for a budget that is not above 0, while the stream is being captured, and when called
/// from a callback of a tuning; CompileError or DeviceError when the default config itself fails.
TuneReport tune_op(std::string_view name, std::span<const TensorView> inputs, const Attributes& attributes = {},
                   const TuneOptions& options = {});
/// The same of a call that was validated; its stream takes the place of that of `options`.
TuneReport tune_op(const Call& call, const TuneOptions& options);

}  // namespace kiln
