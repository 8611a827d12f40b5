#include "registry/inspection/debug_op.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <utility>

#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "registry/inspection/inspection.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/plan.hpp"
#include "registry/plan/plan_cache.hpp"
#include "registry/plan/plan_key.hpp"
#include "registry/plan/registry.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "registry/tuning/tuning.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event_timer.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

/// References are plain loops on one thread: beyond these, seconds become minutes.
constexpr double kMostReferenceFlops = 4e9;
constexpr std::int64_t kMostReferenceBytes = std::int64_t{512} << 20;
constexpr int kWarmCalls = 10;
constexpr double kWarmBudgetUs = 2e6;
constexpr std::int64_t kMostAlignmentBytes = 4096;

double elapsed_us(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::vector<const TensorView*> pointers_to(std::span<const TensorView> views) {
  std::vector<const TensorView*> pointers;
  for (const TensorView& view : views) pointers.push_back(&view);
  return pointers;
}

/// The same elements in memory of their own, laid out alike. The address lies as far from a multiple of 16 bytes as
/// the original's, for that is part of what a call is planned for.
Tensor twin(const TensorView& view, Stream stream) {
  constexpr std::uintptr_t kPlannedAlignmentBytes = 16;
  const MemoryExtent extent = memory_extent(view);
  if (extent.empty()) return {view, nullptr};
  const std::int64_t size_bytes = extent.end_bytes - extent.begin_bytes;
  auto* const source = static_cast<std::byte*>(view.data) + extent.begin_bytes;
  const Tensor buffer = empty({size_bytes + std::int64_t{kPlannedAlignmentBytes}}, DType::u8, stream);
  std::byte* const place =
      buffer.data_as<std::byte>() + reinterpret_cast<std::uintptr_t>(source) % kPlannedAlignmentBytes;
  copy(dense_view(place, DType::u8, {size_bytes}, view.device),
       dense_view(source, DType::u8, {size_bytes}, view.device), stream);
  TensorView result = view;
  result.data = place - extent.begin_bytes;
  return {result, buffer.owner()};
}

/// Keeps the bytes of a tensor in CPU memory, and puts them back when it goes.
class KeptBytes {
 public:
  explicit KeptBytes(const TensorView& view) {
    const ByteRange range = byte_range(view);
    place_ = const_cast<std::byte*>(range.begin);
    bytes_.assign(range.begin, range.end);
  }
  ~KeptBytes() { std::copy(bytes_.begin(), bytes_.end(), place_); }
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

 private:
  std::byte* place_;
  std::vector<std::byte> bytes_;
};

DebuggedTensor describe_tensor(const std::string& name, const TensorView& view) {
  DebuggedTensor tensor;
  tensor.name = name;
  tensor.view = view;
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  while (tensor.alignment_bytes < kMostAlignmentBytes &&
         address % static_cast<std::uintptr_t>(2 * tensor.alignment_bytes) == 0)
    tensor.alignment_bytes *= 2;
  return tensor;
}

std::string output_name(const OpSpec& spec, std::size_t output) {
  return output < spec.outputs.size() ? spec.outputs[output].name : fmt::format("output {}", output);
}

/// One call under the glass, step by step.
class DebuggedCall {
 public:
  DebuggedCall(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
               const DispatchOptions& options)
      : inputs_(inputs), attributes_(attributes), options_(options), call_(checked_call(name)) {
    device_info(call_.device);
    if (is_capturing(stream_))
      throw_value_error(fmt::format(
          "op '{}' cannot be debugged while the stream is being captured, for debug_op waits for the stream; call it "
          "before the capture",
          spec_.name));
    addressed_ = addressed_memory(call_);
    report_.op = spec_.name;
    report_.attributes = call_.attributes;
    report_.device = call_.device;
    for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
      DebuggedTensor& tensor = report_.inputs.emplace_back(describe_tensor(call_.input_spec(i).name, call_.inputs[i]));
      tensor.is_absent = call_.input(i) == nullptr;
      tensor.is_changed = call_.input_spec(i).mutated;
    }
  }

  DebugReport run() {
    // What came before may still write the inputs, in pinned host memory too, which is read with no wait of its own.
    attempt("earlier work on the stream", [&] { synchronize(stream_); });
    attempt("asking for the device's memory", [&] { report_.memory_before = memory_usage(stream_.device); });
    attempt("reading the inputs", [&] {
      look_at_inputs();
      report_.skipped = skipped_work(call_);
    });
    attempt("copying the inputs for the reference", [&] { prepare_reference(); });
    if (call()) {
      attempt("reading the results", [&] { look_at_results(); });
      attempt("the later calls", [&] { time_warm_calls(); });
      compare_results();
    }
    attempt("asking for the device's memory", [&] { report_.memory_after = memory_usage(stream_.device); });
    return std::move(report_);
  }

 private:
  /// All that makes it safe to read the tensors.
  Call checked_call(std::string_view name) const {
    const std::vector<TensorView> inputs(inputs_.begin(), inputs_.end()),
        outputs(options_.outputs.begin(), options_.outputs.end());
    return validated_call(Registry::process().get(name), inputs, attributes_,
                          {.outputs = outputs, .stream = options_.stream, .has_memory = true});
  }

  /// An input that the op changes itself; null for another.
  const TensorView* changed(std::size_t input) const {
    const InputSpec& spec = call_.input_spec(input);
    return spec.mutated && !spec.points_to ? call_.input(input) : nullptr;
  }

  /// What goes wrong beside the call itself must not lose the report.
  template <typename Work>
  void attempt(const char* stage, const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      note_error(stage, error.what());
    }
  }
  void note_error(const char* stage, const char* problem) {
    report_.error += fmt::format("{}{}: {}", report_.error.empty() ? "" : "\n", stage, problem);
  }

  void look_at_inputs() {
    for (DebuggedTensor& tensor : report_.inputs)
      if (!tensor.is_absent) tensor.before = tensor_statistics(tensor.view);
  }

  void prepare_reference() {
    why_not_ = reference_problem();
    if (!why_not_.empty()) return;
    reference_addressed_ = copy_addressed(call_, Device::cpu());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (call_.input_spec(i).points_to) {
        reference_inputs_.emplace_back(reference_addressed_.inputs[i], nullptr);
        continue;
      }
      // Outputs may be the very memory of inputs.
      const bool may_change = call_.input_spec(i).mutated || !call_.makes_outputs;
      const TensorView* const input = call_.input(i);
      const bool is_copied = input != nullptr && (may_change || input->device.is_cuda());
      reference_inputs_.push_back(is_copied ? to_device(*input, Device::cpu()) : inputs_[i]);
    }
  }

  /// Empty where the results can be compared.
  std::string reference_problem() const {
    if (!spec_.reference) return "the op has no reference";
    double bytes = 0;
    for (const AddressedMemory& addressed : addressed_)
      bytes +=
          static_cast<double>(addressed.memory.numel()) * static_cast<double>(itemsize_bytes(addressed.memory.dtype));
    for (const auto* views : {&call_.inputs, &call_.outputs})
      for (const TensorView& view : *views)
        bytes += static_cast<double>(view.numel()) * static_cast<double>(itemsize_bytes(view.dtype));
    const double flops = spec_.cost ? spec_.cost(call_.seen_by_spec()).flops : 0;
    if (bytes <= static_cast<double>(kMostReferenceBytes) && flops <= kMostReferenceFlops) return {};
    return fmt::format(
        "too large to compare: {} and {:.3g} flops, and the reference runs on one thread (at most {} and "
        "{:.3g} flops)",
        format_bytes(static_cast<std::int64_t>(bytes)), flops, format_bytes(kMostReferenceBytes), kMostReferenceFlops);
  }

  std::shared_ptr<const Plan> known_plan() const {
    PlanKey key;
    key.encode(spec_.name, pointers_to(call_.inputs), pointers_to(call_.given_outputs()), attributes_, options_.config,
               options_.tuning.value_or(tuning_policy()), stream_.device,
               overlaps_previous(options_.overlap_previous, stream_.device));
    return PlanCache::process().find(key);
  }

  /// The call itself. False when it failed.
  bool call() {
    report_.was_planned = known_plan() != nullptr;
    const auto start = Clock::now();
    try {
      std::vector<Tensor> results = dispatch_gpu_op_all(spec_.name, inputs_, attributes_, options_);
      synchronize(stream_);
      report_.first_us = elapsed_us(start);
      std::erase_if(results, [](const Tensor& result) { return is_absent(result); });
      report_.results = std::move(results);
      if (const auto plan = known_plan()) report_.plan = plan->report;
      return true;
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      note_error("the call", error.what());
    }
    if (const auto plan = known_plan())
      report_.plan = plan->report;
    else
      attempt("choosing a kernel", [&] { report_.plan = intended_plan(); });
    return false;
  }

  /// What the call would have run.
  PlanReport intended_plan() const {
    const InspectedCall chosen =
        inspect_call(call_, target_of(stream_.device), options_.config, options_.tuning.value_or(tuning_policy()));
    PlanReport plan{chosen.variant, chosen.config, chosen.config_source, {}, chosen.cost};
    for (const InspectedKernel& kernel : chosen.kernels) plan.kernels.emplace_back().name = kernel.request.kernel;
    return plan;
  }

  void look_at_results() {
    for (DebuggedTensor& tensor : report_.inputs)
      if (tensor.is_changed && !tensor.is_absent) tensor.after = tensor_statistics(tensor.view);
    if (spec_.outputs.empty()) return;
    for (std::size_t i = 0; i < report_.results.size(); ++i)
      report_.outputs.emplace_back(describe_tensor(output_name(spec_, i), report_.results[i])).after =
          tensor_statistics(report_.results[i]);
  }

  void time_warm_calls() {
    AddressedCopies addressed;
    std::vector<Tensor> outputs, owned;
    std::vector<TensorView> inputs, output_views;
    std::deque<KeptBytes> kept;
    try {
      if (!spec_.outputs.empty())
        for (const Tensor& result : report_.results)
          output_views.push_back(outputs.emplace_back(twin(result, stream_)));
      addressed = copy_addressed(call_, stream_.device);
      inputs = addressed.inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const TensorView* const input = changed(i);
        if (input == nullptr) continue;
        if (input->device == stream_.device)
          inputs[i] = owned.emplace_back(twin(*input, stream_));
        else  // page-locked memory that the GPU writes: no other memory will do
          kept.emplace_back(*input);
      }
    } catch (const DeviceError& error) {
      if (!error.meaning().starts_with("out of memory")) throw;
      report_.no_warm_time = fmt::format("there is no room for copies of the tensors: {}", error.meaning());
      return;
    }
    DispatchOptions options = options_;
    if (!call_.makes_outputs) options.outputs = outputs;
    options.stream = stream_;
    const ResolvedOp op = resolve(spec_.name, inputs, attributes_, options);
    if (!report_.plan) report_.plan = op.report();
    const auto take = [&](int warmup, int samples) {
      return time_us(stream_, [&] { op(inputs, output_views, stream_); }, {.warmup = warmup, .samples = samples});
    };
    std::vector<double> samples_us = take(0, 1);
    const int affordable = static_cast<int>(std::min<double>(kWarmCalls, kWarmBudgetUs / std::max(samples_us[0], 1.0)));
    if (affordable > 1) samples_us = take(1, affordable);
    report_.warm_calls = static_cast<int>(samples_us.size());
    report_.warm_us = summarize(samples_us).median_us;
    synchronize(stream_);
  }

  /// What the op wrote, by name: outputs, changed inputs, and in place of tables what lies at their addresses.
  std::vector<std::pair<std::string, TensorView>> written() const {
    std::vector<std::pair<std::string, TensorView>> all;
    if (!spec_.outputs.empty())
      for (std::size_t i = 0; i < report_.results.size(); ++i)
        all.emplace_back(output_name(spec_, i), report_.results[i].view());
    for (std::size_t i = 0; i < inputs_.size() && spec_.outputs.empty(); ++i) {
      const std::string& name = call_.input_spec(i).name;
      if (const TensorView* const input = changed(i)) all.emplace_back(name, *input);
      for (const AddressedMemory& addressed : addressed_)
        if (addressed.input == i) all.emplace_back(fmt::format("{}[{}]", name, addressed.entry), addressed.memory);
    }
    return all;
  }

  void compare_results() {
    const std::vector<std::pair<std::string, TensorView>> results = written();
    for (const auto& [name, view] : results)
      report_.comparisons.push_back({name, view.dtype, view.shape,
                                     spec_.tolerance_of(view.dtype, inputs_.empty() ? nullptr : call_.input(0)),
                                     std::nullopt, why_not_});
    if (!why_not_.empty() || reference_inputs_.size() != inputs_.size()) return;
    try {
      compare_with_reference(results);
    } catch (const std::exception& error) {
      for (DebuggedResult& result : report_.comparisons)
        if (!result.comparison) result.why_not = fmt::format("the reference failed: {}", error.what());
    }
  }

  void compare_with_reference(const std::vector<std::pair<std::string, TensorView>>& results) {
    const std::vector<TensorView> inputs(reference_inputs_.begin(), reference_inputs_.end());
    std::vector<Tensor> expected;
    std::vector<TensorView> outputs;
    if (!spec_.outputs.empty())
      for (const Tensor& result : report_.results)
        outputs.push_back(expected.emplace_back(empty(result.shape(), result.dtype(), Device::cpu())));
    spec_.reference({{inputs, call_.left_out}, outputs, call_.attributes});
    for (std::size_t i = 0; i < inputs.size() && spec_.outputs.empty(); ++i) {
      if (changed(i) != nullptr) expected.push_back(reference_inputs_[i]);
      for (std::size_t c = 0; c < addressed_.size(); ++c)
        if (addressed_[c].input == i)
          expected.push_back(to_device(reference_addressed_.copies[c], Device::cpu()));  // without gaps
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      DebuggedResult& result = report_.comparisons[i];
      result.comparison = compare(to_device(results[i].second, Device::cpu()), expected[i], result.tolerance);
    }
  }

  std::span<const Tensor> inputs_;
  const Attributes& attributes_;  ///< as they were given
  const DispatchOptions& options_;
  const Call call_;
  const OpSpec& spec_ = *call_.spec;
  const Stream stream_ = *call_.stream;
  std::vector<Tensor> reference_inputs_;
  std::vector<AddressedMemory> addressed_;
  AddressedCopies reference_addressed_;
  std::string why_not_;  ///< why the results are not compared
  DebugReport report_;
};

}  // namespace

bool DebugReport::ok() const {
  return error.empty() && std::all_of(comparisons.begin(), comparisons.end(), [](const DebuggedResult& result) {
           return !result.comparison || result.comparison->ok();
         });
}

DebugReport debug_op(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
                     const DispatchOptions& options) {
  return DebuggedCall(name, inputs, attributes, options).run();
}

}  // namespace kiln
