#include "registry/dispatch/dispatch.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "registry/dispatch/enqueue.hpp"
#include "registry/dispatch/first_use.hpp"
#include "registry/dispatch/matching_tensors.hpp"
#include "registry/dispatch/observed_launch.hpp"
#include "registry/plan/build_plan.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/call_observer.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/plan_cache.hpp"
#include "registry/plan/plan_key.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/tuning_scope.hpp"
#include "runtime/observers.hpp"
#include "runtime/recording.hpp"

namespace kiln {
namespace {

/// Pointers to the views of a call, on the stack: outputs first, then inputs.
struct CallTensors {
  std::array<const TensorView*, kMaxTensors> views;
  std::size_t num_outputs = 0;
  std::size_t num_inputs = 0;

  /// UsageError(value) for more tensors than any op has.
  template <typename Output, typename Input>
  CallTensors(std::string_view op, std::span<const Output> outputs, std::span<const Input> inputs)
      : num_outputs(outputs.size()), num_inputs(inputs.size()) {
    check_num_tensors(op, num_inputs, num_outputs);
    std::size_t at = 0;
    for (const TensorView& output : outputs) views[at++] = &output;
    for (const TensorView& input : inputs) views[at++] = &input;
  }

  std::span<const TensorView* const> all() const noexcept { return {views.data(), num_outputs + num_inputs}; }
  std::span<const TensorView* const> outputs() const noexcept { return all().first(num_outputs); }
  std::span<const TensorView* const> inputs() const noexcept { return all().subspan(num_outputs); }
};

std::vector<TensorView> copy_views(std::span<const TensorView* const> views) {
  std::vector<TensorView> copies;
  copies.reserve(views.size());
  for (const TensorView* view : views) copies.push_back(*view);
  return copies;
}

enum class Addresses { checked, ignored };

void begin_work(const DispatchOptions& options) {
  if (options.before_work != nullptr) (*options.before_work)();
}

/// The plan of a call that no cache knows: build, publish. During a capture it is built only of kernels that are
/// loaded.
std::shared_ptr<const Plan> make_plan(const PlanKey& key, const Call& call, const DispatchOptions& options,
                                      TuningPolicy tuning) {
  if (auto plan = PlanCache::process().find(key)) return plan;
  const Target target = target_of(call.device);  // UsageError for a device that is not there
  const Loading loading = is_capturing(*call.stream) ? Loading::refused : Loading::allowed;
  prepare_first_use({call, target, tuning, options.config != nullptr});
  return PlanCache::process().insert(
      key, build_plan(call, target, options.config, tuned_lookup(call, target, tuning), loading,
                      overlaps_previous(options.overlap_previous, call.device)));
}

/// `validated`: the call, where somebody has validated it; null: that is done where no cache knows its plan.
std::shared_ptr<const Plan> find_plan(std::string_view name, const CallTensors& tensors, const Attributes& attributes,
                                      const DispatchOptions& options, Stream stream, Addresses addresses,
                                      const Call* validated = nullptr) {
  PlanKey key;
  TuningPolicy tuning = options.tuning.value_or(tuning_policy());
  // Without data there is nothing to measure with, and a tuning's callback must not wait for a tuning; the plan must
  // not pass for one of a call that was tuned.
  if (tuning == TuningPolicy::first_use && (addresses == Addresses::ignored || inside_tuning()))
    tuning = TuningPolicy::use;
  key.encode(name, tensors.inputs(), tensors.outputs(), attributes, options.config, tuning, stream.device,
             overlaps_previous(options.overlap_previous, stream.device));
  RecentPlans& recent = RecentPlans::of_this_thread();
  if (const auto* plan = recent.find(key)) return *plan;
  begin_work(options);
  std::shared_ptr<const Plan> plan = PlanCache::process().find(key);
  if (plan == nullptr && tuning == TuningPolicy::first_use && is_capturing(stream)) {
    // Nothing can be measured during a capture, and the plan must not pass for a tuned one.
    DispatchOptions untuned = options;
    untuned.tuning = TuningPolicy::use;
    return find_plan(name, tensors, attributes, untuned, stream, addresses, validated);
  }
  if (plan == nullptr) {
    const OpSpec& spec = Registry::process().get(name);
    const auto phase = observe_phase(ProfilePhase::plan, spec.name);
    plan = validated != nullptr ? make_plan(key, *validated, options, tuning)
                                : make_plan(key,
                                            validated_call(spec, copy_views(tensors.inputs()), attributes,
                                                           {.outputs = copy_views(tensors.outputs()),
                                                            .stream = stream,
                                                            .has_memory = addresses == Addresses::checked}),
                                            options, tuning);
  }
  recent.put(key, plan);
  return plan;
}

/// Runs a call; `allocate(meta)` makes each output that was not given and returns its view, `launch` is enqueue or
/// observed_launch.
template <typename Allocate, typename Launch>
void run(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
         const DispatchOptions& options, const Allocate& allocate, const Launch& launch) {
  CallTensors tensors(name, options.outputs, inputs);
  const Device device = device_of(name, tensors.inputs(), tensors.outputs(), options.stream);
  const Stream stream = options.stream.value_or(Stream::default_of(device));
  check_stream(name, stream, device);
  const std::shared_ptr<const Plan> plan = find_plan(name, tensors, attributes, options, stream, Addresses::checked);
  if (!options.outputs.empty() || plan->outputs.empty()) {
    check_memory(*plan->spec, tensors.all(), plan->num_outputs(), plan->extents);
    if (!plan->is_brief) begin_work(options);
    launch(*plan, tensors.all(), stream);
    return;
  }
  const auto num_outputs = plan->outputs.size();
  check_memory(*plan->spec, tensors.inputs(), 0, std::span(plan->extents).subspan(num_outputs));
  std::copy_backward(tensors.views.begin(), tensors.views.begin() + static_cast<std::ptrdiff_t>(tensors.num_inputs),
                     tensors.views.begin() + static_cast<std::ptrdiff_t>(tensors.num_inputs + num_outputs));
  tensors.num_outputs = num_outputs;
  for (std::size_t i = 0; i < num_outputs; ++i) tensors.views[i] = allocate(plan->outputs[i], stream);
  if (!plan->is_brief) begin_work(options);
  launch(*plan, tensors.all(), stream);
}

/// Apart from what is not observed, and chosen with one look at the flag.
template <typename Allocate>
[[gnu::noinline]] void run_observed(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
                                    const DispatchOptions& options, const Allocate& allocate) {
  begin_work(options);  // observers and recordings have locks
  const auto observed = [&](CallObserver* observer) {
    run(
        name, inputs, attributes, options,
        [&](const TensorMeta& meta, Stream stream) {
          Recording::of_work(stream, name);  // refuses what no graph would hold, before memory is taken for it
          return allocate(meta, stream);
        },
        [&](const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
          keep_while_recording(inputs, stream);
          keep_while_recording(options.outputs, stream);
          observed_launch(observer, plan, tensors, stream);
        });
  };
  observe_call(name, std::cref(observed));
}

template <typename Allocate>
void run(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
         const DispatchOptions& options, const Allocate& allocate) {
  if (is_observed()) [[unlikely]]
    run_observed(name, inputs, attributes, options, allocate);
  else
    run(name, inputs, attributes, options, allocate, enqueue);
}

Tensor make_output(const TensorMeta& meta, Stream stream, const DispatchOptions& options) {
  if (options.allocate == nullptr) return empty(meta.shape, meta.dtype, stream);
  Tensor output = (*options.allocate)(meta, stream);
  if (is_observed()) [[unlikely]]
    keep_while_recording({&output, 1}, stream);
  return output;
}

/// ResolvedOp's call while somebody looks on.
[[gnu::noinline]] void run_resolved_observed(const Plan& plan, std::span<const TensorView> inputs,
                                             std::span<const TensorView> outputs, Stream stream) {
  const auto observed = [&](CallObserver* observer) {
    PlanTensors storage;
    const auto tensors = matching_tensors(plan, inputs, outputs, "resolved", storage);
    check_stream(plan.spec->name, stream, plan.device);
    observed_launch(observer, plan, tensors, stream);
  };
  observe_call(plan.spec->name, std::cref(observed));
}

/// What a call of an op returns that makes no outputs.
std::vector<Tensor> changed_inputs(std::string_view name, std::span<const Tensor> inputs) {
  const OpSpec& spec = Registry::process().get(name);
  std::vector<Tensor> changed;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (input_spec(spec, i).mutated) changed.push_back(inputs[i]);
  return changed;
}

}  // namespace

Tensor dispatch_gpu_op(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
                       const DispatchOptions& options) {
  if (!options.outputs.empty()) {
    run(name, inputs, attributes, options, [](const TensorMeta&, Stream) -> const TensorView* { return nullptr; });
    return options.outputs.front();
  }
  std::optional<Tensor> first;
  std::vector<Tensor> others;
  run(name, inputs, attributes, options, [&](const TensorMeta& meta, Stream stream) {
    if (!first.has_value()) return &first.emplace(make_output(meta, stream, options)).view();
    others.reserve(kMaxTensors);  // views of earlier outputs stay where they are
    return &others.emplace_back(make_output(meta, stream, options)).view();
  });
  return first.has_value() ? *std::move(first) : changed_inputs(name, inputs).front();
}

std::vector<Tensor> dispatch_gpu_op_all(std::string_view name, std::span<const Tensor> inputs,
                                        const Attributes& attributes, const DispatchOptions& options) {
  std::vector<Tensor> made(options.outputs.begin(), options.outputs.end());
  made.reserve(kMaxTensors);  // views of earlier outputs stay where they are
  run(name, inputs, attributes, options, [&](const TensorMeta& meta, Stream stream) {
    return &made.emplace_back(make_output(meta, stream, options)).view();
  });
  return made.empty() ? changed_inputs(name, inputs) : made;
}

void run_gpu_op(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
                const DispatchOptions& options) {
  run(name, inputs, attributes, options, [&](const TensorMeta& meta, Stream stream) {
    if (options.allocate == nullptr) throw InternalError("run_gpu_op: no output is given, and nothing makes one");
    const Tensor& output = (*options.allocate)(meta, stream);
    if (is_observed()) [[unlikely]]
      keep_while_recording({&output, 1}, stream);
    return &output.view();
  });
}

ResolvedOp resolve(std::string_view name, std::span<const TensorView> inputs, const Attributes& attributes,
                   const DispatchOptions& options) {
  const CallTensors tensors(name, options.outputs, inputs);
  const Device device = device_of(name, tensors.inputs(), tensors.outputs(), options.stream);
  const Stream stream = options.stream.value_or(Stream::default_of(device));
  check_stream(name, stream, device);
  return ResolvedOp(find_plan(name, tensors, attributes, options, stream, Addresses::ignored));
}

ResolvedOp resolve(const Call& call, const DispatchOptions& options) {
  const std::string& name = call.spec->name;
  const CallTensors tensors(name, call.given_outputs(), std::span(call.inputs));
  return ResolvedOp(find_plan(name, tensors, call.attributes, options, *call.stream, Addresses::ignored, &call));
}

void ResolvedOp::operator()(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                            Stream stream) const {
  if (is_observed()) [[unlikely]] {
    run_resolved_observed(*plan_, inputs, outputs, stream);
    return;
  }
  PlanTensors storage;
  const auto tensors = matching_tensors(*plan_, inputs, outputs, "resolved", storage);
  check_stream(plan_->spec->name, stream, plan_->device);
  enqueue(*plan_, tensors, stream);
}

const PlanReport& ResolvedOp::report() const noexcept {
  return plan_->report;
}

const std::vector<TensorMeta>& ResolvedOp::outputs() const noexcept {
  return plan_->outputs;
}

std::vector<TensorMeta> infer_outputs(std::string_view name, std::span<const TensorView> inputs,
                                      const Attributes& attributes) {
  return validated_call(Registry::process().get(name), inputs, attributes, {.seen_on = Device::cpu()}).metas;
}

std::vector<CompileRequest> compile_requests(std::string_view name, std::span<const TensorView> inputs,
                                             const Attributes& attributes, const Target& target, const Config* config,
                                             bool overlap_previous) {
  const OpSpec& spec = Registry::process().get(name);
  const Call call = validated_call(spec, inputs, attributes, {.seen_on = Device{target.type, 0}});
  return choose(call, target, config, {}, overlap_previous).requests;
}

}  // namespace kiln
