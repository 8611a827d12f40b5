#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "compiler/compile_request.hpp"
#include "core/attributes.hpp"
#include "core/config.hpp"
#include "core/launch.hpp"
#include "core/shape_key.hpp"
#include "core/target.hpp"
#include "core/tensor.hpp"
#include "ops/call_inputs.hpp"
#include "ops/estimated_config.hpp"

namespace kiln {

struct TensorMeta {
  DType dtype = DType::f32;
  Dims shape;
  bool absent = false;  ///< an optional input that is left out while a later one is given

  static TensorMeta left_out() { return {DType::f32, {}, true}; }
};

/// What an op's family made of a call, kept beside it (ops/common/call_parser.hpp).
struct ParsedCall {
  std::shared_ptr<const void> parser;  ///< whose `value` it is
  std::shared_ptr<const void> value;
  /// A variant's default for a target: estimated where variants are compared, and asked for of the one that is taken.
  struct Default {
    std::shared_ptr<const void> variant;
    std::string arch;
    EstimatedConfig config;
  };
  std::vector<Default> defaults;
};

/// One call, seen by a spec: views of the tensors and attributes with defaults filled in. Specs may read shapes,
/// strides, dtypes and whether `data` is a multiple of 16 bytes (takes_tensor_map), never the data. It describes one
/// call for good, and serves one thread at a time.
struct OpCall {
  CallInputs inputs;
  std::span<const TensorView> outputs;
  const Attributes& attributes;
  /// Multiprocessors of the GPU that the call runs on, or threads that it may have of the CPU; 0: not known, as where a
  /// kernel is compiled for no device.
  std::int64_t processors = 0;
  /// Of these, on which clusters of programs run at a time (kiln::cluster_processors); 0: not known, or no clusters.
  std::int64_t cluster_processors = 0;
  mutable ParsedCall parsed = {};
};

/// One kernel of a plan.
struct KernelLaunch {
  KernelSource source;  ///< without a path: the variant's
  std::string kernel;   ///< qualified template name; empty: the variant's
  std::vector<TemplateArgument> template_arguments;
  LaunchGeometry geometry;
  std::int32_t vector_width = 0;  ///< see CompileRequest
  ArgumentTemplate arguments;
  std::vector<std::string> parameter_types = {};  ///< see CompileRequest
};

/// A look at scratch memory before a plan goes on: what the kernels so far found out about the call's data. It costs a
/// wait for the stream, so an op offers it as an option.
struct LaunchCheck {
  std::size_t after_launches = 0;  ///< how many of the plan's launches come before it
  int workspace = 0;
  /// Given the workspace's bytes in CPU memory; throws UsageError(value), and the rest of the plan does not run.
  std::function<void(std::span<const std::byte>)> verdict;
};

/// What a variant launches for one call and config: kernels one after the other on the call's stream.
struct LaunchPlan {
  std::vector<KernelLaunch> launches;
  /// Scratch memory that the launches share, buffer by buffer (ArgumentTemplate::add_workspace); at most
  /// kMaxWorkspaces. It lives from before the first launch to after the last.
  std::vector<std::int64_t> workspace_bytes;
  std::optional<LaunchCheck> check = {};
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
  /// Whether a valid config could be the best one for a call, as far as the spec can tell: the tuner passes over the
  /// others (tiles of 64 rows where there is one). Empty: every config could.
  std::function<bool(const OpCall&, const Config&, const Target&)> worth_trying = {};
  /// Microseconds that a call it serves takes by its default config, if the spec can tell. Of variants that serve a
  /// call the first is chosen, but among those of which this is known the fastest.
  std::function<std::optional<double>(const OpCall&, const Target&)> estimate_us = {};
  /// Valid configs that are likely to be the fastest for a call, the likeliest first, if the spec can tell: the tuner
  /// begins with them.
  std::function<std::vector<Config>(const OpCall&, const Target&)> ranking = {};
  /// Every program of its kernels runs tl::wait_for_previous, as tl::program_id does, before it touches memory or
  /// returns. Launches of a variant that does not promise this never overlap (DispatchOptions::overlap_previous).
  bool waits_for_previous = false;
};

/// What the entries of an input that names memory or amounts of work may be in one call: whole numbers.
struct SelectionRange {
  std::int64_t low = 0;
  std::int64_t high = -1;  ///< the last one; below `low` there is none, as in an empty cache
  /// Entries name different ones, since what is written twice has no definite value.
  bool distinct = false;
  /// Entries do not decrease, as where sequences begin in a packed tensor.
  bool ascending = false;
};

struct InputSpec {
  std::string name;
  std::string doc;
  /// May be left out (add(x, other=2.0)); `infer` says what replaces it. Before one that is given callers put Tensor{}.
  bool optional = false;
  /// The last input may be given any number of times, up to kMaxTensors tensors in all (concat).
  bool repeated = false;
  /// The op writes it. An op that changes inputs has no outputs of its own: the call returns those it changed, in
  /// order.
  bool mutated = false;
  /// May lie in pinned host memory while the rest of the call is on a GPU, which then reads or writes it directly.
  bool pinned = false;
  std::vector<DType> dtypes = {};  ///< where they differ from the spec's
  /// Where the values choose memory or amounts of work (indices, slots, tables, counts) rather than being numbers that
  /// the op computes with: what they may be in a call, one range for all entries or one for each column of the last
  /// dimension. Random inputs are drawn from the whole of it, and an entry outside is work that the op skips.
  std::function<std::vector<SelectionRange>(const OpCall&)> selects = {};
  /// Where the values are addresses: what lies at each of them in a call, as a view without data. Random inputs get
  /// memory of their own for every entry, and who calls the op again copies what is there, as it copies `mutated`
  /// inputs.
  std::function<TensorView(const OpCall&)> points_to = {};
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
  /// Whether the best config depends on it. Where it does not (a seed), calls with other values share what was tuned.
  bool decides_speed = true;
  bool is_unsigned = false;  ///< an integer may also be one of 2^63 to 2^64 - 1
};

struct Cost {
  double flops = 0;
  double bytes = 0;  ///< each input element read once (broadcast operands once), each output written once
};

/// How much of the work that a call's shapes ask for its values leave out: slots that are none, rows behind a count.
struct SkippedWork {
  std::int64_t skipped = 0;
  std::int64_t total = 0;
  std::string what;  ///< "entries of 'index'"
  double share() const noexcept { return total == 0 ? 0 : static_cast<double>(skipped) / static_cast<double>(total); }
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
  std::vector<InputRange> ranges = {};  ///< of numbers, per input, where they depend on the shapes; else the spec's
};

/// How outputs may share memory with inputs.
enum class Aliasing {
  none,         ///< any overlap is an error
  elementwise,  ///< an output may be exactly an input (same address, shape, strides, itemsize); partial overlap is an
                ///< error
  first_input,  ///< the first output may be exactly the first input; any other overlap is an error
  any,          ///< the kernel's author answers for it: nothing is checked (user kernels)
};

/// The contract of an op: each fact once; dispatcher, tuner, CLI, Python, tests, benchmarks and docs read it.
struct OpSpec {
  std::string name;  ///< torch's
  std::string doc;   ///< one line: formula, NaN and integer behaviour where it is not obvious
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<AttributeSpec> attributes;
  std::vector<DType> dtypes;  ///< legal input dtypes; `infer` decides combinations
  ShapeKeyRule shape_rule;    ///< which shapes share a tuned config; exact without one
  Aliasing aliasing = Aliasing::none;
  /// Shapes and dtypes of the outputs. UsageError naming the argument, both values and what was expected. Arity,
  /// device, nulls, negative extents and single dtypes are already checked.
  std::function<std::vector<TensorMeta>(const CallInputs& inputs, const Attributes& attributes)> infer;
  std::vector<Variant> variants;  ///< in order of preference, where they do not say how fast they are
  std::function<Cost(const OpCall&)> cost;
  /// Naive, on CPU memory, any strides, accumulating in double (or in int64/uint64 for integers). Changes the inputs
  /// that the op changes.
  std::function<void(const OpCall&)> reference;
  std::vector<Example> examples;
  /// A random legal call, for tests of ops whose inputs' shapes depend on one another or on attributes. Without it
  /// tests give all inputs of an example shapes that broadcast.
  std::function<Example(std::mt19937_64&)> random_example;
  /// Against the reference, by output dtype; missing: none.
  std::function<Tolerance(DType)> tolerance;
  /// What is added to it, by the dtypes of the first input, whose products may be summed in fewer bits than an output
  /// has, and of the output.
  std::function<Tolerance(DType, DType)> product_tolerance;
  /// What numbers are drawn from, per input; missing: the default range. What selects says so itself
  /// (InputSpec::selects).
  std::vector<InputRange> input_ranges;
  /// The same for inputs of integers, where those would leave work out: a zero divisor, a negative exponent.
  std::vector<InputRange> integer_ranges;
  /// Puts what the op skips or never looks at (negative slots, garbage behind a count) here and there into inputs that
  /// hold legal entries, in CPU memory, for tests; the call stays legal.
  std::function<void(const OpCall&, std::mt19937_64&)> spoil_inputs;
  /// What a call's values leave out; its selecting inputs lie in CPU memory, and the others may not be read. Needed
  /// where more than one input selects; for a single one the entries outside of its range are counted.
  std::function<SkippedWork(const OpCall&)> skipped_work;

  /// What an output of a call may be off by whose first input, if it has any, is this one.
  Tolerance tolerance_of(DType out, const TensorView* first_input) const {
    Tolerance all = tolerance ? tolerance(out) : Tolerance{};
    if (product_tolerance && first_input != nullptr) {
      const Tolerance products = product_tolerance(first_input->dtype, out);
      all.relative += products.relative;
      all.absolute += products.absolute;
    }
    return all;
  }
};

}  // namespace kiln
