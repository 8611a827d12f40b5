#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotune/tuning_entry.hpp"
#include "core/attributes.hpp"
#include "core/tensor.hpp"
#include "registry/tuning/tuning.hpp"

namespace kiln {

/// What stands in a key in place of an op's variant.
inline constexpr const char* kFunctionVariant = "function";

/// A call of a function of the user's, which is no op, and the configs that it may be called with.
struct TunedFunction {
  std::string name;                 ///< "my_module.scaled": what the database has it under
  std::string digest;               ///< of what it does: a function that changed is another one
  std::string runtime;              ///< what runs it, with its version: "python 3.12.4"
  std::vector<TensorView> tensors;  ///< among its arguments; dtypes, shapes and layouts are part of the key
  Attributes attributes;            ///< its other arguments, part of the key too
  std::vector<Config> configs;      ///< to choose from
  /// Calls it, which enqueues its work on the stream. Called on the thread that tunes. CandidateFailure, CompileError
  /// and DeviceError end a config, what else it throws ends the tuning.
  std::function<void(const Config&, Stream)> call;
  /// Does the same and returns what it computed, for comparison; nothing where there is nothing to compare.
  std::function<std::vector<Tensor>(const Config&, Stream)> compute;
};

/// Finds the config that a function is fastest with, and keeps it in the tuning database as tune_op does for ops. The
/// first of the list that works is the one whose results and times the others are compared with. Calls are launched one
/// by one; what they change is not restored, so that the function must do the same when it is called again.
///
/// UsageError: value for an empty list, one that no config of works, configs that name different tunables; not
/// implemented for graphs (`measuring`), which record ops only. CompileError or DeviceError where that first one fails
/// later.
TuneReport tune_function(const TunedFunction& function, Stream stream, const TuneOptions& options);

/// What the database has of it on `device`; nullptr where nothing.
std::shared_ptr<const TuningEntry> tuned_entry(const TunedFunction& function, Device device);

}  // namespace kiln
