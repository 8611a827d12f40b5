#include "registry/user_ops/user_kernel.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"
#include "ops/common/few_roundings.hpp"
#include "ops/common/traffic.hpp"
#include "registry/user_ops/kernel_binding.hpp"

namespace kiln {
namespace {

using Kind = TemplateParameter::Kind;

constexpr std::int64_t kDefaultNumWarps = 4;
constexpr const char* kNumWarps = "num_warps";
constexpr const char* kCopyWarps = "copy_warps";
constexpr const char* kGrid = "grid";
constexpr const char* kElements = "n";

bool contains(std::span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> names_of(const std::vector<Tunable>& tunables) {
  std::vector<std::string> names;
  for (const Tunable& tunable : tunables) names.push_back(tunable.name);
  return names;
}

/// Names that a tunable may have beside num_warps and copy_warps.
std::vector<std::string> tunable_parameters(const KernelSignature& signature) {
  std::vector<std::string> names;
  for (const TemplateParameter& parameter : signature.template_parameters)
    if (parameter.kind != Kind::type) names.push_back(parameter.name);
  for (const KernelParameter& parameter : signature.parameters)
    if (!parameter.is_pointer) names.push_back(parameter.name);
  return names;
}

void check_tunables(const UserKernel& kernel, const KernelSignature& signature) {
  const std::vector<std::string> tuned = names_of(kernel.tunables);
  const std::vector<std::string> parameters = tunable_parameters(signature);
  for (const Tunable& tunable : kernel.tunables) {
    if (tunable.values.empty())
      throw_value_error(fmt::format("op '{}': tunable '{}' has no values to choose from", kernel.name, tunable.name));
    if (std::count(tuned.begin(), tuned.end(), tunable.name) > 1)
      throw_value_error(fmt::format("op '{}': tunable '{}' is listed twice", kernel.name, tunable.name));
    if (tunable.name == kGrid)
      throw_value_error(fmt::format("op '{}': a tunable cannot be named 'grid'; the grid may be computed from tunables",
                                    kernel.name));
    if (tunable.name == kNumWarps || tunable.name == kCopyWarps || contains(parameters, tunable.name)) continue;
    // One that only the grid knows is legal, and a slip of the pen is likelier.
    std::vector<std::string> open;
    for (const std::string& parameter : parameters)
      if (!contains(tuned, parameter)) open.push_back(parameter);
    const std::string suggestion = did_you_mean(tunable.name, open);
    if (!kernel.grid || !suggestion.empty())
      throw_value_error(fmt::format("op '{}': kernel '{}' has no parameter '{}' to tune{} (it has: {})", kernel.name,
                                    signature.kernel, tunable.name, suggestion, fmt::join(parameters, ", ")));
  }
}

/// The first of `configs`, all that there are, with the values that are wanted for some tunables.
Config first_with(const UserKernel& kernel, const std::vector<Config>& configs, const Config& wanted) {
  const std::vector<std::string> tuned = names_of(kernel.tunables);
  for (const auto& [name, value] : wanted.entries())
    if (!contains(tuned, name))
      throw_value_error(fmt::format("op '{}': the default for '{}' is of no tunable{}", kernel.name, name,
                                    did_you_mean(name, tuned)));
  if (configs.empty()) throw_value_error(fmt::format("op '{}': no config meets all constraints", kernel.name));
  const auto found = std::find_if(configs.begin(), configs.end(), [&](const Config& config) {
    return std::all_of(wanted.entries().begin(), wanted.entries().end(),
                       [&](const Config::Entry& entry) { return config.at(entry.first) == entry.second; });
  });
  if (found == configs.end())
    throw_value_error(fmt::format(
        "op '{}': the defaults {} are not among the tunables' values, or break a constraint ({})", kernel.name,
        to_string(wanted), kernel.constraints.empty() ? "there are none" : [&] {
          std::string all;
          for (const Constraint& constraint : kernel.constraints)
            all += fmt::format("{}{}", all.empty() ? "" : "; ", constraint.text);
          return all;
        }()));
  return *found;
}

/// What `serves`, `space` and `default_config` of a variant are; all launches of a kernel share it.
Variant tuned_variant(const UserKernel& kernel, const KernelSignature& signature) {
  check_tunables(kernel, signature);
  Variant variant;
  variant.name = "kernel";
  variant.doc = fmt::format("{} of {}", signature.kernel, kernel.source.path);
  variant.source = kernel.source;
  variant.kernel = signature.kernel;
  ConfigSpace space(kernel.tunables, kernel.constraints);
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = [space](const Target&) { return space; };
  // Constraints may be people's functions, and are asked once and not for each call.
  const auto configs = std::make_shared<const std::vector<Config>>(space.enumerate());
  const auto config_on = [&](DeviceType type) {
    return first_with(kernel, *configs, kernel.defaults ? kernel.defaults(Target{type, "", ""}) : Config{});
  };
  variant.default_config = [on_cpu = config_on(DeviceType::cpu), on_gpu = config_on(DeviceType::cuda)](
                               const OpCall&, const Target& target) {
    return target.type == DeviceType::cpu ? on_cpu : on_gpu;
  };
  if (kernel.defaults_of_call)
    variant.default_config = [kernel, configs](const OpCall& call, const Target& target) {
      return first_with(kernel, *configs, kernel.defaults_of_call(call, target));
    };
  return variant;
}

/// Attributes, then tunables, then the launch's own values; the later ones win.
Attributes merged(const Attributes& attributes, const Config& config, const Attributes& values) {
  Attributes all = attributes;
  for (const auto& [name, value] : config.entries()) all.set(name, value);
  for (const auto& [name, value] : values.entries()) all.set(name, value);
  return all;
}

LaunchGeometry geometry_of(const LaunchValues& launch, const Attributes& values, const Target& target,
                           const std::string& op) {
  LaunchGeometry geometry;
  geometry.grid = launch.grid;
  for (const std::int64_t extent : geometry.grid)
    if (extent < 0)
      throw_value_error(
          fmt::format("op '{}': the grid is ({}); extents are 0 or more", op, fmt::join(geometry.grid, ", ")));
  geometry.shared_bytes = launch.shared_bytes;
  const AttributeValue* named = values.find(kNumWarps);
  const auto* num_warps = named == nullptr ? nullptr : std::get_if<std::int64_t>(named);
  std::int64_t chosen = launch.num_warps != 0 ? launch.num_warps : num_warps != nullptr ? *num_warps : kDefaultNumWarps;
  if (chosen < 1 || chosen > 32)
    throw_value_error(fmt::format("op '{}': num_warps is {}; a program has 1 to 32 warps", op, chosen));
  const AttributeValue* copying = values.find(kCopyWarps);
  const auto* copy_warps = copying == nullptr ? nullptr : std::get_if<std::int64_t>(copying);
  if (copy_warps != nullptr && *copy_warps != 0) {
    if (*copy_warps != 4 || chosen % 4 != 0)
      throw_value_error(
          fmt::format("op '{}': copy_warps is {} beside num_warps={}; 4 warps copy, beside a multiple of 4, or none",
                      op, *copy_warps, chosen));
    // Elsewhere nobody waits for them: a program copies for itself.
    if (target.arch == "sm_90a") geometry.copy_warps = static_cast<std::int32_t>(*copy_warps);
  }
  // The CPU has no warps: configs that differ in nothing else are one launch, which tuning then measures once.
  if (target.type == DeviceType::cpu) chosen = kDefaultNumWarps;
  geometry.num_warps = static_cast<std::int32_t>(chosen);
  return geometry;
}

Cost bytes_moved(const OpCall& call) {
  return {0, common::sum_of_tensors(call, common::whole_bytes)};
}

std::vector<DType> dtypes_of(const KernelParameter& parameter) {
  if (const auto dtype = spelled_dtype(parameter.value_type)) return {*dtype};
  return {};
}

AttributeSpec attribute_of(const TemplateParameter& parameter, const KernelBinding& binding) {
  AttributeSpec made;
  made.name = parameter.name;
  const AttributeValue fallback = KernelBinding::fallback_of(parameter);
  if (parameter.kind == Kind::type) {
    const bool is_deduced = binding.is_deduced(parameter);
    made.doc = is_deduced ? "template parameter, a dtype; by default that of the tensors it types"
                          : "template parameter, a type";
    made.decides_speed = !is_deduced;  // the tensors' dtypes do
    made.required = !is_deduced && std::holds_alternative<std::monostate>(fallback);
    return made;  // its default stays out: it may be a dtype or the name of a type
  }
  const bool is_boolean = parameter.kind == Kind::boolean;
  made.doc = is_boolean ? "template parameter, a boolean" : "template parameter, an integer";
  made.required = std::holds_alternative<std::monostate>(fallback);
  made.fallback = is_boolean ? AttributeValue(false) : AttributeValue(std::int64_t{0});
  if (made.fallback.index() == fallback.index()) made.fallback = fallback;
  return made;
}

AttributeSpec attribute_of(const KernelParameter& parameter, const UserKernel& kernel) {
  AttributeSpec made;
  made.name = parameter.name;
  made.doc = fmt::format("{}, by value", parameter.type);
  const AttributeValue fallback = KernelBinding::fallback_of(parameter);
  made.required = std::holds_alternative<std::monostate>(fallback);
  const auto dtype = spelled_dtype(parameter.value_type);
  made.is_unsigned = dtype == DType::u64;
  if (dtype.has_value()) {  // of a template's type it may be anything, until that is known
    made.fallback = *dtype == DType::bool_ ? AttributeValue(false)
                    : is_integer(*dtype)   ? AttributeValue(std::int64_t{0})
                                           : AttributeValue(0.0);
    const auto* integer = std::get_if<std::int64_t>(&fallback);
    if (integer != nullptr && is_floating(*dtype))
      made.fallback = static_cast<double>(*integer);
    else if (!made.required)
      made.fallback = fallback;
  }
  made.decides_speed = dtype.has_value() && !is_floating(*dtype) && !contains(kernel.not_tuned_for, parameter.name);
  return made;
}

bool writes_through_pointers(const KernelSignature& signature) {
  return std::any_of(signature.parameters.begin(), signature.parameters.end(),
                     [](const KernelParameter& parameter) { return parameter.is_pointer && !parameter.is_const; });
}
/// Addresses of what a kernel writes may come as numbers, in an array that it only reads (a group's outputs).
bool may_hold_addresses(const KernelParameter& parameter) {
  const std::string_view pointee = parameter.value_type;
  return parameter.is_pointer && (pointee.ends_with("int64_t") || pointee.ends_with("long long"));
}

void check_names(const UserKernel& kernel, const KernelSignature& signature) {
  std::vector<std::string> values = tunable_parameters(signature);
  for (const std::string& name : kernel.not_tuned_for)
    if (!contains(values, name))
      throw_value_error(fmt::format("op '{}': not_tuned_for names '{}', which is no value parameter of the kernel{}",
                                    kernel.name, name, did_you_mean(name, values)));
  std::vector<std::string> pointers;
  for (const KernelParameter& parameter : signature.parameters) {
    values.push_back(parameter.name);
    if (parameter.is_pointer) pointers.push_back(parameter.name);
  }
  for (const std::string& name : kernel.strided)
    if (!contains(pointers, name))
      throw_value_error(fmt::format("op '{}': strided names '{}', which is no pointer parameter of the kernel{} ({})",
                                    kernel.name, name, did_you_mean(name, pointers), fmt::join(pointers, ", ")));
  for (const char* reserved : {kGrid, kNumWarps, kCopyWarps})
    if (contains(values, reserved))
      throw_value_error(
          fmt::format("op '{}': kernel '{}' has a parameter named '{}', which is the launch's own; give "
                      "it another name",
                      kernel.name, signature.kernel, reserved));
  if (!writes_through_pointers(signature) &&
      std::none_of(signature.parameters.begin(), signature.parameters.end(), may_hold_addresses))
    throw_value_error(
        fmt::format("op '{}': kernel '{}' writes nothing, for every pointer it takes is const: declare its outputs T*, "
                    "without const, or pass their addresses in an array of int64_t or uint64_t",
                    kernel.name, signature.kernel));
}

/// The kernel finds elements from their addresses: of other strides than it takes for granted it would read the wrong
/// ones, and write over what lies between them. UsageError(value) naming the op's tensor.
void check_strides(const UserKernel& kernel, const KernelParameter& parameter, const std::string& tensor,
                   const TensorView& view) {
  if (view.is_contiguous() || contains(kernel.strided, parameter.name)) return;
  throw_value_error(fmt::format(
      "op '{}': '{}' is not contiguous ({}), and the kernel gets its address alone: {}, or have the kernel take the "
      "strides as numbers and declare that it does (strided=['{}'])",
      kernel.name, tensor, describe(view),
      parameter.is_const ? "pass a contiguous copy (x.contiguous(), numpy.ascontiguousarray(x))"
                         : "pass a contiguous tensor, and copy what it is given",
      parameter.name));
}

std::vector<KernelBinding::Pointer> pointers_of(std::span<const TensorView> inputs) {
  std::vector<KernelBinding::Pointer> pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) pointers.push_back({static_cast<int>(i), inputs[i].dtype, false});
  return pointers;
}

/// A call's attributes with the types that were deduced, for the grid.
Attributes with_types(const KernelSignature& signature, const KernelLaunch& launch, const Attributes& attributes) {
  Attributes all = attributes;
  for (std::size_t i = 0; i < launch.template_arguments.size(); ++i)
    if (const auto* dtype = std::get_if<DType>(&launch.template_arguments[i]))
      all.set(signature.template_parameters[i].name, *dtype);
  return all;
}

std::array<std::int64_t, 3> given_grid(const std::string& op, const std::vector<std::int64_t>& extents) {
  if (extents.empty() || extents.size() > 3)
    throw_value_error(
        fmt::format("op '{}': the grid has {} extents; it has 1 to 3, programs along each axis", op, extents.size()));
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::copy(extents.begin(), extents.end(), grid.begin());
  return grid;
}

/// The kernel's tensor of a name, or of the name that a launch gives it.
std::string tensor_name(const LaunchValues& launch, const std::string& parameter) {
  for (const auto& [kernel_name, op_name] : launch.tensors)
    if (kernel_name == parameter) return op_name;
  return parameter;
}

/// Names of an op's tensors, outputs first, as plans number them.
struct OpTensors {
  std::vector<std::string> names;
  std::vector<bool> written;

  explicit OpTensors(const OpSpec& spec) {
    for (const OutputSpec& output : spec.outputs) add(output.name, true);
    for (const InputSpec& input : spec.inputs) add(input.name, input.mutated);
  }
  void add(const std::string& name, bool is_written) {
    names.push_back(name);
    written.push_back(is_written);
  }
  /// The number of the tensor that goes to `parameter`.
  std::size_t find(const std::string& op, const KernelParameter& parameter, const std::string& name) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw_value_error(
          fmt::format("op '{}': kernel parameter '{}' takes a tensor, and '{}' is none of the op's{} ({})", op,
                      parameter.name, name, did_you_mean(name, names), fmt::join(names, ", ")));
    const auto index = static_cast<std::size_t>(found - names.begin());
    if (!parameter.is_const && !written[index])
      throw_value_error(fmt::format(
          "op '{}': the kernel declares '{}' as {}, so it may write it, but '{}' is an input that the op does not "
          "change; declare it as const, or the input as changed (mutated)",
          op, parameter.name, parameter.type, name));
    return index;
  }
};

/// Whether a call can bind `name` with no launch function.
bool is_known(const OpSpec& spec, const UserKernel& kernel, const std::string& name) {
  return contains(names_of(kernel.tunables), name) || name == kElements ||
         std::any_of(spec.attributes.begin(), spec.attributes.end(),
                     [&](const AttributeSpec& attribute) { return attribute.name == name; });
}

void check_bindable(const OpSpec& spec, const UserKernel& kernel, const KernelBinding& binding,
                    const OpTensors& tensors) {
  const auto refuse = [&](const std::string& what, const std::string& name) {
    throw_value_error(
        fmt::format("op '{}': {} '{}' of kernel '{}' is neither an attribute nor a tunable of the op; add "
                    "one of that name, or give 'launch', which passes it",
                    spec.name, what, name, binding.signature().kernel));
  };
  for (const TemplateParameter& parameter : binding.signature().template_parameters)
    if (!is_known(spec, kernel, parameter.name) && !binding.is_deduced(parameter) &&
        std::holds_alternative<std::monostate>(KernelBinding::fallback_of(parameter)))
      refuse("template parameter", parameter.name);
  for (const KernelParameter& parameter : binding.signature().parameters) {
    if (parameter.is_pointer)
      tensors.find(spec.name, parameter, parameter.name);
    else if (!is_known(spec, kernel, parameter.name) && parameter.fallback.empty())
      refuse("parameter", parameter.name);
  }
  if (!kernel.grid) throw_value_error(fmt::format("op '{}' has neither a grid nor 'launch'", spec.name));
}

}  // namespace

OpSpec kernel_op(const UserKernel& kernel) {
  const auto binding = std::make_shared<const KernelBinding>(kernel_signature(kernel.source, kernel.kernel));
  const KernelSignature& signature = binding->signature();
  check_names(kernel, signature);
  OpSpec spec;
  spec.name = kernel.name;
  spec.doc = kernel.doc;
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec.aliasing = Aliasing::any;
  const std::vector<std::string> tuned = names_of(kernel.tunables);
  for (const TemplateParameter& parameter : signature.template_parameters)
    if (!contains(tuned, parameter.name)) spec.attributes.push_back(attribute_of(parameter, *binding));
  // Of a kernel that writes through addresses alone, their arrays stand for what it changes.
  const bool changes_addressed = !writes_through_pointers(signature);
  for (const KernelParameter& parameter : signature.parameters) {
    if (parameter.is_pointer)
      spec.inputs.push_back({.name = parameter.name,
                             .doc = parameter.type,
                             .mutated = !parameter.is_const || (changes_addressed && may_hold_addresses(parameter)),
                             .dtypes = dtypes_of(parameter)});
    else if (!contains(tuned, parameter.name))
      spec.attributes.push_back(attribute_of(parameter, kernel));
  }
  if (!contains(tuned, kNumWarps))
    spec.attributes.push_back({kNumWarps, kDefaultNumWarps, false, "warps of a program on a GPU"});
  AttributeSpec grid;
  grid.name = kGrid;
  grid.doc = "programs along each axis; by default what the kernel's grid function says";
  grid.fallback = std::vector<std::int64_t>{};
  grid.required = !kernel.grid;
  spec.attributes.push_back(std::move(grid));

  Variant variant = tuned_variant(kernel, signature);
  const Config any_config = variant.default_config({{}, {}, Attributes{}}, Target{DeviceType::cpu, "", ""});
  spec.infer = [binding, any_config, kernel](std::span<const TensorView> inputs, const Attributes& attributes) {
    std::size_t input = 0;
    for (const KernelParameter& parameter : binding->signature().parameters)
      if (parameter.is_pointer) check_strides(kernel, parameter, parameter.name, inputs[input++]);
    binding->bind(pointers_of(inputs), merged(attributes, any_config, {}));
    return std::vector<TensorMeta>{};
  };
  variant.plan = [binding, op = kernel.name, grid_of = kernel.grid](const OpCall& call, const Config& config,
                                                                    const Target& target) {
    const Attributes values = merged(call.attributes, config, {});
    KernelLaunch launch = binding->bind(pointers_of(call.inputs), values);
    const auto& given = std::get<std::vector<std::int64_t>>(*call.attributes.find(kGrid));
    const Attributes all = with_types(binding->signature(), launch, call.attributes);
    LaunchValues geometry;
    geometry.grid = given.empty() ? grid_of({call.inputs, call.outputs, all}, config) : given_grid(op, given);
    launch.geometry = geometry_of(geometry, values, target, op);
    return LaunchPlan{{std::move(launch)}, {}};
  };
  spec.variants.push_back(std::move(variant));
  spec.cost = kernel.cost ? kernel.cost : bytes_moved;
  spec.tolerance = kernel.tolerance ? kernel.tolerance : few_roundings;
  return spec;
}

Variant kernel_variant(const OpSpec& spec, const UserKernel& kernel, LaunchFunction launch) {
  const KernelBinding binding(kernel_signature(kernel.source, kernel.kernel));
  const OpTensors tensors(spec);
  if (!launch) check_bindable(spec, kernel, binding, tensors);
  Variant variant = tuned_variant(kernel, binding.signature());
  variant.plan = [binding, tensors, op = spec.name, kernel, launch = std::move(launch)](
                     const OpCall& call, const Config& config, const Target& target) {
    const LaunchValues given = launch ? launch(call, config, target) : LaunchValues{.grid = kernel.grid(call, config)};
    Attributes values = merged(call.attributes, config, given.values);
    const std::size_t num_outputs = call.outputs.size();
    const auto view = [&](std::size_t tensor) {
      return tensor < num_outputs ? &call.outputs[tensor] : call.inputs.find(tensor - num_outputs);
    };
    std::vector<KernelBinding::Pointer> pointers;
    for (const KernelParameter& parameter : binding.signature().parameters) {
      if (!parameter.is_pointer) continue;
      const std::size_t tensor = tensors.find(op, parameter, tensor_name(given, parameter.name));
      if (tensor >= num_outputs + call.inputs.size())
        throw_not_implemented(fmt::format(
            "op '{}': input '{}' was left out at the end of a call, and kernel '{}' takes it; give it, or serve such "
            "calls with another kernel",
            op, tensors.names[tensor], binding.signature().kernel));
      const TensorView* const found = view(tensor);
      if (found != nullptr) check_strides(kernel, parameter, tensors.names[tensor], *found);
      pointers.push_back({static_cast<int>(tensor), found != nullptr ? found->dtype : DType::f32, found == nullptr});
    }
    const std::size_t first_result = static_cast<std::size_t>(
        std::find(tensors.written.begin(), tensors.written.end(), true) - tensors.written.begin());
    if (values.find(kElements) == nullptr && first_result < tensors.written.size() && view(first_result) != nullptr)
      values.set(kElements, view(first_result)->numel());
    KernelLaunch made = binding.bind(pointers, values);
    made.geometry = geometry_of(given, values, target, op);
    return LaunchPlan{{std::move(made)}, {}};
  };
  return variant;
}

}  // namespace kiln
