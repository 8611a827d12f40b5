#include "cli/run_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/attribute_text.hpp"
#include "cli/cache_warning.hpp"
#include "cli/command_profile.hpp"
#include "cli/debug_run.hpp"
#include "cli/input_file_error.hpp"
#include "cli/npy.hpp"
#include "cli/random_call.hpp"
#include "cli/run_report.hpp"
#include "cli/standard_streams.hpp"
#include "core/errors.hpp"
#include "core/output_file.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event_timer.hpp"
#include "runtime/memory.hpp"

namespace kiln::cli {
namespace {

Device default_device() {
  return device_count(DeviceType::cuda) > 0 ? Device::cuda(0) : Device::cpu();
}

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

std::vector<TensorMeta> metas_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorMeta> metas;
  for (const Tensor& tensor : tensors) metas.push_back({tensor.dtype(), tensor.shape()});
  return metas;
}

/// Gives a file's array the dtype that --dtype names, where that is the same bits (bf16 in u16, fp8 in u8).
Tensor with_dtype(Tensor tensor, DType wanted, const std::string& file) {
  if (wanted == tensor.dtype()) return tensor;
  if (npy_storage_dtype(wanted) != tensor.dtype())
    throw InputFileError(fmt::format(
        "'{}' holds {}, but --dtype asks for {}; leave --dtype out, or convert the file first with: kiln run cast "
        "--input {} --attr dtype={} --output ...",
        file, name(tensor.dtype()), name(wanted), file, name(wanted)));
  TensorView view = tensor.view();
  view.dtype = wanted;
  return Tensor(view, tensor.owner());
}

std::vector<Tensor> inputs_from_files(const OpSpec& spec, const RunOptions& options) {
  for (const InputSpec& input : spec.inputs)
    if (input.points_to)
      throw_value_error(fmt::format(
          "op '{}': input '{}' holds addresses, which mean nothing in another process, so no file can bring "
          "them; leave --input out, and the command makes what they name, or call the op from Python or C++",
          spec.name, input.name));
  if (!options.call.shapes.empty())
    throw_value_error("--shape and --input exclude each other: files bring their shapes");
  const std::vector<std::string>& dtypes = options.call.dtypes;
  if (dtypes.size() > 1 && dtypes.size() != options.input_files.size())
    throw_value_error(
        fmt::format("--dtype is given {} times for {} input files", dtypes.size(), options.input_files.size()));
  // The command line is checked whole before a large file is read.
  std::vector<DType> wanted;
  for (const std::string& dtype : dtypes) wanted.push_back(parse_dtype(dtype));
  const auto required =
      std::count_if(spec.inputs.begin(), spec.inputs.end(), [](const InputSpec& input) { return !input.optional; });
  const bool repeated = !spec.inputs.empty() && spec.inputs.back().repeated;
  if ((options.input_files.size() > spec.inputs.size() && !repeated) ||
      static_cast<std::ptrdiff_t>(options.input_files.size()) < required)
    throw_value_error(fmt::format("op '{}' is {}: {} --input file{} given", spec.name, signature(spec),
                                  options.input_files.size(), options.input_files.size() == 1 ? " is" : "s are"));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < options.input_files.size(); ++i) {
    Tensor tensor = read_npy(options.input_files[i]);
    if (!wanted.empty())
      tensor = with_dtype(tensor, wanted.size() == 1 ? wanted[0] : wanted[i], options.input_files[i]);
    inputs.push_back(tensor);
  }
  // What does not fit together here is the files' content and not the command line.
  try {
    validated_call(spec, views_of(inputs), parse_attributes(spec, options.call.attributes), {.seen_on = Device::cpu()});
  } catch (const UsageError& error) {
    // Where an operand was left out, the command line lacks a file or an attribute.
    if (inputs.size() < spec.inputs.size()) throw;
    throw InputFileError(fmt::format("the input files do not fit op '{}': {}", spec.name, error.what()));
  }
  return inputs;
}

/// A tensor that the op changes: an input, or what lies at an address among the inputs.
struct Changed {
  std::string name;
  Tensor tensor;
};

std::vector<Changed> changed_tensors(const Call& call, const std::vector<Tensor>& inputs,
                                     const std::vector<AddressedMemory>& addressed) {
  std::vector<Changed> changed;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& input = call.input_spec(i);
    if (!input.mutated || call.input(i) == nullptr) continue;
    if (!input.points_to) changed.push_back({input.name, inputs[i]});
    for (const AddressedMemory& memory : addressed)
      if (memory.input == i)
        changed.push_back({fmt::format("{}[{}]", input.name, memory.entry), Tensor(memory.memory, inputs[i].owner())});
  }
  return changed;
}

void check_outputs_writable(const OpSpec& spec, const RunOptions& options, const std::vector<TensorMeta>& outputs) {
  if (options.output_files.empty()) {
    if (options.output_bits) throw_value_error("--output-bits needs --output");
    return;
  }
  if (options.output_files.size() != outputs.size())
    throw_value_error(fmt::format("op '{}' has {} output{}, but --output is given {} times", spec.name, outputs.size(),
                                  outputs.size() == 1 ? "" : "s", options.output_files.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const DType stored = npy_storage_dtype(outputs[i].dtype);
    if (stored != outputs[i].dtype && !options.output_bits)
      throw_value_error(fmt::format(
          "'{}' would hold {}, which NumPy has no dtype for; cast it (kiln run cast --attr dtype=f32), or give "
          "--output-bits to write its bits as {}",
          options.output_files[i], name(outputs[i].dtype), name(stored)));
    check_output_path(options.output_files[i]);
  }
}

/// The inputs as they are before the call, on the CPU, for the reference to run over and to change.
struct ReferenceCall {
  const Call& call;
  AddressedCopies addressed;
  std::vector<Tensor> inputs;

  /// Of `call`, which is over `given`.
  ReferenceCall(const Call& original, const std::vector<Tensor>& given)
      : call(original), addressed(copy_addressed(call, Device::cpu())) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      const InputSpec& input = call.input_spec(i);
      const bool is_copied = call.input(i) != nullptr && (input.mutated || given[i].device().is_cuda());
      inputs.push_back(input.points_to ? Tensor(addressed.inputs[i], nullptr)
                       : is_copied     ? to_device(given[i], Device::cpu())
                                       : given[i]);
    }
  }

  std::vector<Comparison> compare_with(const std::vector<Tensor>& host_outputs) const {
    const OpSpec& spec = *call.spec;
    std::vector<Tensor> expected;
    if (!spec.outputs.empty())
      for (const Tensor& output : host_outputs)
        expected.push_back(empty(output.shape(), output.dtype(), Device::cpu()));
    const std::vector<TensorView> input_views = views_of(inputs), output_views = views_of(expected);
    spec.reference({{input_views, call.left_out}, output_views, call.attributes});
    if (spec.outputs.empty()) {
      std::vector<AddressedMemory> copies = addressed.originals;
      for (std::size_t i = 0; i < copies.size(); ++i) copies[i].memory = addressed.copies[i];
      for (const Changed& changed : changed_tensors(call, inputs, copies))
        expected.push_back(to_device(changed.tensor, Device::cpu()));
    }
    std::vector<Comparison> comparisons;
    for (std::size_t i = 0; i < expected.size(); ++i)
      comparisons.push_back(compare(host_outputs[i], expected[i],
                                    spec.tolerance ? spec.tolerance(host_outputs[i].dtype()) : Tolerance{}));
    return comparisons;
  }
};

}  // namespace

int run_command(const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const OpSpec& spec = Registry::process().get(options.call.op);
  const Attributes attributes = parse_attributes(spec, options.call.attributes);
  const Device device = options.device.empty() ? default_device() : parse_device(options.device);
  device_info(device);  // refuses a device that is not there before any input is made
  const std::optional<Config> config =
      options.config.empty() ? std::nullopt : std::optional(parse_config(options.config));
  complete_attributes(spec, attributes);
  check_debug_options(options);
  if (options.check && !spec.reference)
    throw_value_error(fmt::format("op '{}' has no reference, so --check has nothing to compare with", spec.name));

  CommandProfile profile(options.profile, options.measured_peak);
  std::vector<Tensor> inputs;
  if (options.input_files.empty()) {
    const std::vector<TensorMeta> metas = input_metas(spec, options.call, attributes);
    inputs = random_inputs(spec, call_views(spec, options.call, metas, device), attributes, device, options.seed);
  } else {
    inputs = inputs_from_files(spec, options);
    call_views(spec, options.call, metas_of(inputs), device);  // refuses what --pinned must not name
    if (device.is_cuda())
      for (std::size_t i = 0; i < inputs.size(); ++i)
        inputs[i] =
            is_pinned(spec, options.call, i) ? in_pinned_memory(inputs[i], device) : to_device(inputs[i], device);
  }

  const Stream stream = Stream::default_of(device);
  DispatchOptions dispatch_options;
  dispatch_options.stream = stream;  // an op without inputs runs where its stream is
  if (config) dispatch_options.config = &*config;
  if (options.debug) return debug_run(spec, inputs, attributes, dispatch_options);
  const Call call = validated_call(spec, views_of(inputs), attributes, {.stream = stream});
  const ResolvedOp op = resolve(call, dispatch_options);
  const std::vector<Changed> changed = changed_tensors(call, inputs, addressed_memory(call));
  std::vector<TensorMeta> output_metas = op.outputs();
  std::vector<std::string> output_names;
  if (spec.outputs.empty()) {
    for (const auto& [name, tensor] : changed) {
      output_metas.push_back({tensor.dtype(), tensor.shape()});
      output_names.push_back(name);
    }
  } else {
    output_names = result_names(spec);
  }
  check_outputs_writable(spec, options, output_metas);
  std::optional<ReferenceCall> reference;
  if (options.check) reference.emplace(call, inputs);
  const std::optional<SkippedWork> skipped = skipped_work(call);

  std::vector<Tensor> outputs;
  for (const TensorMeta& meta : op.outputs()) outputs.push_back(empty(meta.shape, meta.dtype, stream));
  const std::vector<TensorView> output_views = views_of(outputs);
  if (spec.outputs.empty()) {  // what one call makes of them, before the timed ones change them again
    op(call.inputs, {}, stream);
    synchronize(stream);
    for (const auto& [name, tensor] : changed) outputs.push_back(to_device(tensor, device));
  }
  TimingOptions timing;
  timing.samples = options.repeat.value_or(kUsualRepeat);
  timing.warmup = std::min(2, timing.samples - 1);
  const TimingSummary summary = summarize(time_us(stream, [&] { op(call.inputs, output_views, stream); }, timing));
  profile.stop();

  std::vector<Tensor> host_outputs = outputs;
  if (device.is_cuda() && (options.check || !options.output_files.empty()))
    for (Tensor& output : host_outputs) output = to_device(output, Device::cpu());
  std::vector<Comparison> checks;
  if (reference) checks = reference->compare_with(host_outputs);

  RunReport report{spec,
                   options,
                   device,
                   metas_of(inputs),
                   metas_of(outputs),
                   std::move(output_names),
                   skipped,
                   op.report(),
                   summary,
                   std::move(checks),
                   0};
  // A wrong result is not written: a file that is there is a file to trust.
  if (report.ok())
    for (std::size_t i = 0; i < options.output_files.size(); ++i) write_npy(options.output_files[i], host_outputs[i]);
  report.total_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (options.json)
    print_json(to_json(report));
  else
    print_text(to_text(report));
  profile.finish(options.json);
  // A kernel that came from the disk says nothing is amiss: a shared cache may well be read-only.
  const auto& kernels = op.report().kernels;
  if (std::any_of(kernels.begin(), kernels.end(), [](const PlanReport::Kernel& kernel) {
        return kernel.artifact_origin == ArtifactCache::Origin::compiled;
      }))
    warn_of_cache_problem();
  if (report.ok()) return 0;
  print_error(fmt::format("op '{}' does not match its reference on {}", spec.name, to_string(device)));
  return 1;
}

}  // namespace kiln::cli
