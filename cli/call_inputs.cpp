#include "cli/call_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cli/shape_text.hpp"
#include "core/errors.hpp"
#include "registry/validation.hpp"

namespace kiln::cli {
namespace {

/// "3 inputs (condition, input, other)", "1 to 2 inputs (input, other)".
std::string expected_inputs(const OpSpec& spec, std::size_t required) {
  std::vector<std::string> names;
  for (const InputSpec& input : spec.inputs) names.push_back(input.name);
  const std::string count =
      required == names.size() ? std::to_string(required) : fmt::format("{} to {}", required, names.size());
  return fmt::format("{} input{} ({})", count, names.size() == 1 ? "" : "s", fmt::join(names, ", "));
}

bool is_condition(const OpSpec& spec, std::size_t input) {
  const auto shows_condition = [&](const Example& example) {
    return input < example.inputs.size() && example.inputs[input].dtype == DType::bool_ &&
           std::any_of(
               example.inputs.begin(), example.inputs.end(),
               [](const TensorMeta& meta) { return meta.dtype != DType::bool_; });
  };
  return !spec.examples.empty() && std::all_of(spec.examples.begin(), spec.examples.end(), shows_condition);
}

std::string shape_option(const Dims& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

bool accepts(const OpSpec& spec, const std::vector<TensorMeta>& metas, const Attributes& attributes) {
  try {
    spec.infer(placeholder_views(metas, Device::cpu()), complete_attributes(spec, attributes));
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

std::vector<TensorMeta> metas_of(const OpSpec& spec, const CallText& call, std::size_t count) {
  const bool takes_f32 = std::find(spec.dtypes.begin(), spec.dtypes.end(), DType::f32) != spec.dtypes.end();
  const DType fallback = takes_f32 || spec.dtypes.empty() ? DType::f32 : spec.dtypes.front();
  std::vector<TensorMeta> metas;
  for (std::size_t i = 0; i < count; ++i) {
    TensorMeta meta;
    meta.shape = parse_shape(call.shapes.size() == 1 ? call.shapes[0] : call.shapes[i]);
    if (call.dtypes.size() > 1) {
      meta.dtype = parse_dtype(call.dtypes[i]);
    } else if (count > 1 && is_condition(spec, i)) {
      meta.dtype = DType::bool_;
    } else {
      meta.dtype = call.dtypes.empty() ? fallback : parse_dtype(call.dtypes[0]);
    }
    metas.push_back(meta);
  }
  return metas;
}

}  // namespace

std::vector<TensorView> placeholder_views(const std::vector<TensorMeta>& metas, Device device) {
  std::vector<TensorView> views;
  for (const TensorMeta& meta : metas)
    views.push_back(dense_view(reinterpret_cast<void*>(std::uintptr_t{1} << 20), meta.dtype, meta.shape, device));
  return views;
}

std::vector<TensorMeta> input_metas(const OpSpec& spec, const CallText& call, const Attributes& attributes) {
  const auto required = static_cast<std::size_t>(
      std::count_if(spec.inputs.begin(), spec.inputs.end(), [](const InputSpec& input) { return !input.optional; }));
  const std::size_t most_given = std::max(call.shapes.size(), call.dtypes.size());
  const std::size_t count = most_given > 1 ? most_given : spec.inputs.size();
  const auto check_count = [&](std::string_view option, std::size_t given) {
    if (given > 1 && (given != count || given < required || given > spec.inputs.size()))
      throw_value_error(
          fmt::format("op '{}' takes {}, but {} is given {} times; give it once for all inputs, or once per input",
                      spec.name, expected_inputs(spec, required), option, given));
  };
  if (call.shapes.empty()) {
    const std::string hint =
        spec.examples.empty() ? std::string() : ", like: " + example_command(spec, spec.examples.front());
    throw_value_error(
        fmt::format("op '{}' takes {}: give --shape{}", spec.name, expected_inputs(spec, required), hint));
  }
  check_count("--shape", call.shapes.size());
  check_count("--dtype", call.dtypes.size());

  std::vector<TensorMeta> metas = metas_of(spec, call, count);
  if (most_given > 1 || accepts(spec, metas, attributes)) return metas;
  for (std::size_t fewer = count; fewer-- > required;)
    if (std::vector<TensorMeta> some = metas_of(spec, call, fewer); accepts(spec, some, attributes)) return some;
  return metas;  // the dispatcher says what is wrong with the whole call
}

std::string describe_inputs(const OpSpec& spec, const std::vector<TensorMeta>& metas) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < metas.size(); ++i)
    parts.push_back(fmt::format("{} {} {}", i < spec.inputs.size() ? spec.inputs[i].name : "input",
                                name(metas[i].dtype), to_string(metas[i].shape)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string signature(const OpSpec& spec) {
  std::vector<std::string> parts;
  for (const InputSpec& input : spec.inputs) parts.push_back(input.optional ? input.name + "?" : input.name);
  if (!spec.attributes.empty()) parts.emplace_back("*");
  for (const AttributeSpec& attribute : spec.attributes)
    parts.push_back(attribute.required ? attribute.name : attribute.name + "=" + to_string(attribute.fallback));
  std::vector<std::string> outputs;
  for (const OutputSpec& output : spec.outputs) outputs.push_back(output.name);
  return fmt::format("{}({}) -> {}", spec.name, fmt::join(parts, ", "), fmt::join(outputs, ", "));
}

std::string example_command(const OpSpec& spec, const Example& example) {
  std::string command = "kiln run " + spec.name;
  const auto all_same = [&](auto&& field) {
    return std::all_of(example.inputs.begin(), example.inputs.end(),
                       [&](const TensorMeta& meta) { return field(meta) == field(example.inputs.front()); });
  };
  if (example.inputs.empty()) return command;
  const bool one_shape = all_same([](const TensorMeta& meta) { return shape_option(meta.shape); });
  const bool one_dtype = all_same([](const TensorMeta& meta) { return meta.dtype; });
  // One option stands for every input only when the call has as many as the spec.
  const bool complete =
      example.inputs.size() == spec.inputs.size() || !one_shape || !one_dtype || !example.attributes.empty();
  for (std::size_t i = 0; i < (one_shape && complete ? 1 : example.inputs.size()); ++i)
    command += " --shape " + shape_option(example.inputs[i].shape);
  for (std::size_t i = 0; i < (one_dtype ? 1 : example.inputs.size()); ++i)
    command += fmt::format(" --dtype {}", name(example.inputs[i].dtype));
  for (const Attributes::Entry& entry : example.attributes.entries())
    command += fmt::format(" --attr {}={}", entry.first, to_string(entry.second));
  return command;
}

}  // namespace kiln::cli
