#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "compiler/compile_request.hpp"
#include "core/attributes.hpp"
#include "core/config.hpp"
#include "core/launch.hpp"
#include "core/target.hpp"
#include "core/tensor.hpp"

namespace kiln {

struct TensorMeta {
  DType dtype = DType::f32;
  Dims shape;
};

/// One call, seen by a spec: views of the tensors and attributes with defaults filled in. Specs may read shapes,
/// strides, dtypes and whether `data` is a multiple of 16 bytes (takes_tensor_map), never the data.
struct OpCall {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Attributes& attributes;
};

/// One kernel of a plan.
struct KernelLaunch {
  KernelSource source;  ///< without a path: the variant's
  std::string kernel;   ///< qualified template name; empty: the variant's
  std::vector<TemplateArgument> template_arguments;
  LaunchGeometry geometry;
  std::int32_t vector_width = 0;  ///< see CompileRequest
  ArgumentTemplate arguments;
};

/// What a variant launches for one call and config: kernels one after the other on the call's stream.
struct LaunchPlan {
  std::vector<KernelLaunch> launches;
  /// Scratch memory that the launches share, buffer by buffer (ArgumentTemplate::add_workspace); at most
  /// kMaxWorkspaces. It lives from before the first launch to after the last.
  std::vector<std::int64_t> workspace_bytes;
};

/// One kernel that can serve the op, in some calls on some targets.
struct Variant {
  std::string name;  ///< "contiguous"
  std::string doc;
  KernelSource source;
  std::string kernel;  ///< qualified template name
  std::function<bool(const OpCall&, const Target&)> serves;
  std::function<ConfigSpace(const Target&)> space;
  /// The untuned default for a call; always valid in `space`.
  std::function<Config(const OpCall&, const Target&)> default_config;
  std::function<LaunchPlan(const OpCall&, const Config&, const Target&)> plan;
};

struct InputSpec {
  std::string name;
  std::string doc;
  bool optional = false;  ///< trailing inputs may be left out (add(x, other=2.0)); `infer` says what replaces them
  bool repeated =
      false;  ///< the last input may be given any number of times, up to kMaxTensors tensors in all (concat)
};

struct OutputSpec {
  std::string name;
  std::string doc;
};

struct AttributeSpec {
  std::string name;
  AttributeValue fallback;  ///< the default; its alternative is the type (an int64 given for a double converts)
  bool required = false;
  std::string doc;
};

struct Cost {
  double flops = 0;
  double bytes = 0;  ///< each input element read once (broadcast operands once), each output written once
};

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

/// The interval random test inputs are drawn from where the whole line would leave the op's domain.
struct InputRange {
  double low = -4;
  double high = 4;
};

/// A call that tests, benchmarks and `kiln ops` can make.
struct Example {
  std::vector<TensorMeta> inputs;
  Attributes attributes;
  std::vector<InputRange> ranges = {};  ///< per input, where they depend on the shapes (indices); else the spec's
};

/// How outputs may share memory with inputs.
enum class Aliasing {
  none,         ///< any overlap is an error
  elementwise,  ///< an output may be exactly an input (same address, shape, strides, itemsize); partial overlap is an
                ///< error
  first_input,  ///< the first output may be exactly the first input; any other overlap is an error
};

/// The contract of an op: each fact once; dispatcher, tuner, CLI, Python, tests, benchmarks and docs read it.
struct OpSpec {
  std::string name;  ///< torch's
  std::string doc;   ///< one line: formula, NaN and integer behaviour where it is not obvious
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<AttributeSpec> attributes;
  std::vector<DType> dtypes;  ///< legal input dtypes; `infer` decides combinations
  Aliasing aliasing = Aliasing::none;
  /// Shapes and dtypes of the outputs. UsageError naming the argument, both values and what was expected. Arity,
  /// device, nulls, negative extents and single dtypes are already checked.
  std::function<std::vector<TensorMeta>(std::span<const TensorView> inputs, const Attributes& attributes)> infer;
  std::vector<Variant> variants;  ///< in order of preference
  std::function<Cost(const OpCall&)> cost;
  /// Naive, on CPU memory, any strides, accumulating in double (or in int64/uint64 for integers).
  std::function<void(const OpCall&)> reference;
  std::vector<Example> examples;
  /// A random legal call, for tests of ops whose inputs' shapes depend on one another or on attributes. Without it
  /// tests give all inputs of an example shapes that broadcast.
  std::function<Example(std::mt19937_64&)> random_example;
  /// Against the reference, by output dtype.
  std::function<Tolerance(DType)> tolerance;
  std::vector<InputRange> input_ranges;  ///< per input; missing: the default range
};

}  // namespace kiln
