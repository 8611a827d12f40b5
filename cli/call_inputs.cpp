#include "cli/call_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cli/shape_text.hpp"
#include "core/errors.hpp"
#include "registry/plan/validation.hpp"

namespace kiln::cli {
namespace {

/// Whether the last input may be given any number of times.
bool is_repeated(const OpSpec& spec) {
  return !spec.inputs.empty() && spec.inputs.back().repeated;
}

/// "3 inputs (condition, input, other)", "1 to 2 inputs (input, other)".
std::string expected_inputs(const OpSpec& spec, std::size_t required) {
  std::vector<std::string> names;
  for (const InputSpec& input : spec.inputs) names.push_back(input.name);
  if (names.empty()) return "no inputs";
  const std::string count = is_repeated(spec)          ? fmt::format("{} or more", required)
                            : required == names.size() ? std::to_string(required)
                                                       : fmt::format("{} to {}", required, names.size());
  return fmt::format("{} input{} ({})", count, names.size() == 1 && !is_repeated(spec) ? "" : "s",
                     fmt::join(names, ", "));
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

/// ", like: kiln run ..." where the op has an example.
std::string like_example(const OpSpec& spec) {
  return spec.examples.empty() ? std::string() : ", like: " + example_command(spec, spec.examples.front());
}

bool accepts(const OpSpec& spec, const std::vector<TensorMeta>& metas, const Attributes& attributes) {
  try {
    std::vector<TensorView> views;
    for (const TensorMeta& meta : metas) views.push_back(dense_view(nullptr, meta.dtype, meta.shape));
    spec.infer(CallInputs(views, {}), complete_attributes(spec, attributes));
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
    // One dtype for all goes to the inputs that take it: indices stay integers.
    if (const std::vector<DType>& own = spec.inputs[std::min(i, spec.inputs.size() - 1)].dtypes;
        call.dtypes.size() <= 1 && !own.empty() && std::find(own.begin(), own.end(), meta.dtype) == own.end())
      meta.dtype = own.front();
    metas.push_back(meta);
  }
  return metas;
}

/// Of the inputs that a GPU may reach in host memory.
void check_pinned(const OpSpec& spec, const CallText& call) {
  std::vector<std::string> names, legal;
  for (const InputSpec& input : spec.inputs) {
    names.push_back(input.name);
    if (input.pinned) legal.push_back(input.name);
  }
  for (const std::string& name : call.pinned) {
    if (std::find(legal.begin(), legal.end(), name) != legal.end()) continue;
    const bool is_input = std::find(names.begin(), names.end(), name) != names.end();
    throw_value_error(fmt::format("op '{}': --pinned is '{}', {}; {}", spec.name, name,
                                  is_input ? "which must lie where the call runs" : "which is no input",
                                  legal.empty()
                                      ? "none of its inputs may lie in host memory"
                                      : fmt::format("what may lie in host memory: {}", fmt::join(legal, ", "))));
  }
}

}  // namespace

std::vector<std::optional<TensorView>> placeholder_views(const std::vector<TensorMeta>& metas, Device device) {
  std::vector<std::optional<TensorView>> views(metas.size());
  for (std::size_t i = 0; i < metas.size(); ++i)
    if (!metas[i].absent) views[i] = dense_view(nullptr, metas[i].dtype, metas[i].shape, device);
  return views;
}

bool is_pinned(const OpSpec& spec, const CallText& call, std::size_t input) {
  return std::find(call.pinned.begin(), call.pinned.end(), input_name(spec, input)) != call.pinned.end();
}

std::vector<std::optional<TensorView>> call_views(const OpSpec& spec, const CallText& call,
                                                  const std::vector<TensorMeta>& metas, Device device) {
  check_pinned(spec, call);
  std::vector<std::optional<TensorView>> views = placeholder_views(metas, device);
  for (std::size_t i = 0; i < views.size(); ++i)
    if (views[i] && is_pinned(spec, call, i)) views[i]->device = Device::cpu();
  return views;
}

std::vector<TensorMeta> input_metas(const OpSpec& spec, const CallText& call, const Attributes& attributes) {
  const auto required = static_cast<std::size_t>(
      std::count_if(spec.inputs.begin(), spec.inputs.end(), [](const InputSpec& input) { return !input.optional; }));
  const std::size_t most_given = std::max(call.shapes.size(), call.dtypes.size());
  const std::size_t count = most_given > 1 ? most_given : spec.inputs.size();
  const auto check_count = [&](std::string_view option, std::size_t given) {
    if (given > 1 && (given != count || given < required || (given > spec.inputs.size() && !is_repeated(spec))))
      throw_value_error(
          fmt::format("op '{}' takes {}, but {} is given {} times; give it once for all inputs, or once per input",
                      spec.name, expected_inputs(spec, required), option, given));
  };
  if (spec.inputs.empty()) {
    if (most_given > 0)
      throw_value_error(
          fmt::format("op '{}' takes no inputs, so --shape and --dtype cannot be given; what it makes is "
                      "said by attributes{}",
                      spec.name, like_example(spec)));
    return {};
  }
  if (call.shapes.empty()) {
    throw_value_error(fmt::format("op '{}' takes {}: give --shape{}", spec.name, expected_inputs(spec, required),
                                  like_example(spec)));
  }
  check_count("--shape", call.shapes.size());
  check_count("--dtype", call.dtypes.size());

  if (most_given > 1) return metas_of(spec, call, count);
  // One shape for all is of as few inputs as the op takes: matmul's addend is not in a call that names no third shape.
  const std::size_t fewest = std::max<std::size_t>(required, 1);
  for (std::size_t some = fewest; some <= count; ++some)
    if (std::vector<TensorMeta> few = metas_of(spec, call, some); accepts(spec, few, attributes)) return few;
  // The dispatcher says what is wrong with the call, and not with inputs that nobody named.
  return metas_of(spec, call, fewest);
}

std::string input_name(const OpSpec& spec, std::size_t input) {
  return spec.inputs.at(std::min(input, spec.inputs.size() - 1)).name;
}

std::vector<std::string> result_names(const OpSpec& spec) {
  std::vector<std::string> names;
  for (const OutputSpec& output : spec.outputs) names.push_back(output.name);
  for (const InputSpec& input : spec.inputs)
    if (input.mutated) names.push_back(input.name);
  return names;
}

std::string describe_inputs(const OpSpec& spec, const std::vector<TensorMeta>& metas) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < metas.size(); ++i)
    parts.push_back(fmt::format("{} {} {}", input_name(spec, i), name(metas[i].dtype), to_string(metas[i].shape)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string signature(const OpSpec& spec) {
  std::vector<std::string> parts;
  for (const InputSpec& input : spec.inputs)
    parts.push_back(input.name + (input.optional ? "?" : input.repeated ? "..." : ""));
  if (!spec.attributes.empty()) parts.emplace_back("*");
  for (const AttributeSpec& attribute : spec.attributes)
    parts.push_back(attribute.required ? attribute.name : attribute.name + "=" + to_string(attribute.fallback));
  return fmt::format("{}({}) -> {}", spec.name, fmt::join(parts, ", "), fmt::join(result_names(spec), ", "));
}

std::string attribute_option(const Attributes::Entry& attribute) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute.second);
  const auto* text = std::get_if<std::string>(&attribute.second);  // without the quotes that messages have
  const std::string value = text != nullptr   ? *text
                            : list == nullptr ? to_string(attribute.second)
                            : list->empty()   ? "()"
                                              : fmt::format("{}", fmt::join(*list, ","));
  return fmt::format("{}={}", attribute.first, value);
}

std::string example_command(const OpSpec& spec, const Example& example) {
  std::string command = "kiln run " + spec.name;
  const auto all_same = [&](auto&& field) {
    return std::all_of(example.inputs.begin(), example.inputs.end(),
                       [&](const TensorMeta& meta) { return field(meta) == field(example.inputs.front()); });
  };
  const bool one_shape = all_same([](const TensorMeta& meta) { return shape_option(meta.shape); });
  const bool one_dtype = all_same([](const TensorMeta& meta) { return meta.dtype; });
  // One option stands for every input only when the call has as many as the spec.
  const bool complete = example.inputs.size() == spec.inputs.size() ||
                        (!is_repeated(spec) && (!one_shape || !one_dtype || !example.attributes.empty()));
  const std::size_t count = example.inputs.size(), once = std::min<std::size_t>(count, 1);
  for (std::size_t i = 0; i < (one_shape && complete ? once : count); ++i)
    command += " --shape " + shape_option(example.inputs[i].shape);
  for (std::size_t i = 0; i < (one_dtype ? once : count); ++i)
    command += fmt::format(" --dtype {}", name(example.inputs[i].dtype));
  for (const Attributes::Entry& entry : example.attributes.entries()) command += " --attr " + attribute_option(entry);
  return command;
}

}  // namespace kiln::cli
