#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln {

/// A kernel of the user's, for calls that pass its own parameters.
///
/// Tensors are passed as their address, so one that is not contiguous is refused unless its parameter is listed in
/// `strided`. An empty tensor is the author's business; how tensors overlap is not looked at either (Aliasing::any).
struct UserKernel {
  std::string name;  ///< the op's; letters, digits, '_', '.' and ':'
  std::string doc;
  KernelSource source;
  std::string kernel;  ///< which of the source's; empty: its only one
  /// Template parameters, value parameters and `num_warps` that tuning may choose. Others are for the grid alone.
  std::vector<Tunable> tunables;
  std::vector<Constraint> constraints;
  /// The values of some tunables when nothing was tuned; the rest has the first that goes with them.
  std::function<Config(const Target&)> defaults;
  /// The same for one call, in place of `defaults`. What it gives is held against the tunables and constraints when a
  /// call is planned: UsageError(value) as for `defaults`. May be empty; kernel_op has none.
  std::function<Config(const OpCall&, const Target&)> defaults_of_call = {};
  /// Programs along each axis. Attributes hold every value by its parameter's name, types that were deduced from
  /// tensors included. Empty: each call gives the attribute `grid`.
  std::function<std::array<std::int64_t, 3>(const OpCall&, const Config&)> grid;
  /// Pointer parameters whose tensors may have any strides: the author passes those as values, and the kernel uses
  /// them.
  std::vector<std::string> strided = {};
  /// Value parameters that do not decide which config is the fastest, such as a seed. Floats never do.
  std::vector<std::string> not_tuned_for;
  std::function<Cost(const OpCall&)> cost;    ///< empty: each tensor's bytes once, no operations
  std::function<Tolerance(DType)> tolerance;  ///< between configs of a tuning; empty: a few roundings
};

/// The op that launches a kernel: its inputs are the kernel's pointers in order, changed where they are not const; its
/// attributes are the values, the template parameters that are not tuned (types may be left out where a tensor has
/// them), `num_warps` unless it is tuned, and `grid`, which replaces the kernel's for a call. UsageError: value for a
/// kernel that the file does not have, that writes nothing, or whose tunables are not its own; not_implemented for
/// parameters that no call can give.
OpSpec kernel_op(const UserKernel& kernel);

/// What one launch passes beside what its names say.
struct LaunchValues {
  std::array<std::int64_t, 3> grid{1, 1, 1};
  Attributes values = {};  ///< before tunables and attributes of the same name
  std::vector<std::pair<std::string, std::string>> tensors =
      {};                      ///< kernel parameter -> the op's tensor of another name
  std::int32_t num_warps = 0;  ///< 0: the tunable's, else 4
  /// Dynamic shared memory on a GPU; 0: what the kernel's pipelines need (tl::pipeline), which the compiler finds out.
  /// For kernels with an `extern __shared__` of their own. A call with less than the kernel's pipelines need, or more
  /// than the device has, is a UsageError(value).
  std::int32_t shared_bytes = 0;
};
using LaunchFunction = std::function<LaunchValues(const OpCall&, const Config&, const Target&)>;

/// A variant of `spec`, an op with inputs and outputs of its own, that runs a user's kernel: pointer parameters are the
/// op's tensors of the same name, value and template parameters its attributes and tunables. An integer `n` that is
/// neither is the number of elements of the op's first result. `launch`, where given, comes before all of that, and
/// before `kernel.grid`. `kernel.strided` holds for the kernel's names. UsageError(value) at once for what no call
/// could bind, when there is no `launch`.
Variant kernel_variant(const OpSpec& spec, const UserKernel& kernel, LaunchFunction launch = {});

}  // namespace kiln
