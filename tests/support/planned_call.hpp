#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/compile_request.hpp"
#include "ops/preferred_variant.hpp"
#include "tests/support/host_tensor.hpp"

namespace kiln::test {

inline const Target kCpu{DeviceType::cpu, "any", ""};
inline const Target kHopper = parse_cuda_target("sm_90a");

/// What `variant` would compile for `plan`.
inline std::vector<CompileRequest> requests_of(const OpSpec& spec, const Variant& variant, const LaunchPlan& plan,
                                               const Config& config, const Target& target) {
  std::vector<CompileRequest> requests;
  for (const KernelLaunch& launch : plan.launches)
    requests.push_back({.op = spec.name,
                        .configuration = to_string(config),
                        .source = variant.source,
                        .kernel = launch.kernel.empty() ? variant.kernel : launch.kernel,
                        .template_arguments = launch.template_arguments,
                        .num_parameters = launch.arguments.size(),
                        .num_warps = launch.geometry.num_warps,
                        .copy_warps = launch.geometry.copy_warps,
                        .vector_width = launch.vector_width,
                        .target = target});
  return requests;
}

/// The launch's template arguments as the compiler spells them: "kiln::ops::Add, float, 128".
inline std::string spelled(const KernelLaunch& launch) {
  std::string text;
  for (const TemplateArgument& argument : launch.template_arguments)
    text += (text.empty() ? "" : ", ") + spell(argument);
  return text;
}

/// A call of a built-in op over tensors without memory, whose outputs are dense, and what each target makes of it.
struct PlannedCall {
  const OpSpec& spec;
  std::vector<TensorView> inputs, outputs;
  Attributes attributes;  ///< complete

  PlannedCall(std::string_view op, std::vector<TensorView> given_inputs, const Attributes& given = {})
      : spec(spec_of(op)), inputs(std::move(given_inputs)), attributes(with_defaults(spec, given)) {
    for (const TensorMeta& meta : spec.infer(inputs, attributes)) outputs.push_back(shaped(meta.dtype, meta.shape));
  }
  PlannedCall(std::string_view op, const std::vector<TensorMeta>& metas, const Attributes& given = {})
      : PlannedCall(op, views_of(metas), given) {}

  OpCall call() const { return {inputs, outputs, attributes}; }
  const Variant& variant(const Target& target) const {
    if (const Variant* const preferred = preferred_variant(spec, call(), target)) return *preferred;
    throw std::logic_error("no variant serves the call");
  }
  Config config(const Target& target) const {
    const Variant& chosen = variant(target);
    const Config config = chosen.default_config(call(), target);
    chosen.space(target).validate(config);
    return config;
  }
  LaunchPlan plan(const Target& target) const { return plan(target, config(target)); }
  LaunchPlan plan(const Target& target, const Config& config) const {
    return variant(target).plan(call(), config, target);
  }
  std::vector<CompileRequest> requests(const Target& target) const {
    return requests_of(spec, variant(target), plan(target), config(target), target);
  }

 private:
  static std::vector<TensorView> views_of(const std::vector<TensorMeta>& metas) {
    std::vector<TensorView> views;
    for (const TensorMeta& meta : metas) views.push_back(shaped(meta.dtype, meta.shape));
    return views;
  }
};

}  // namespace kiln::test
