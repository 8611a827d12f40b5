#include "cli/tune_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "cli/attribute_text.hpp"
#include "core/errors.hpp"
#include "core/input_file.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/registry.hpp"

namespace kiln::cli {
namespace {

constexpr std::string_view kAll = "all";
constexpr std::size_t kMostShapesBytes = std::size_t{16} << 20;

/// Whether a call launches anything. UsageError as a dispatch of the call would have it.
bool has_work(const OpSpec& spec, const TracedCall& call, Device device) {
  const std::vector<TensorMeta> outputs =
      validated_call(spec, call.inputs, call.attributes, {.stream = Stream::default_of(device)}).metas;
  const auto is_empty = [](const TensorMeta& output) { return num_elements(output.shape) == 0; };
  return outputs.empty() || !std::all_of(outputs.begin(), outputs.end(), is_empty);
}

TracedCall call_of(const CallText& text, Device device) {
  const OpSpec& spec = Registry::process().get(text.op);
  for (const std::string& dtype : text.dtypes) parse_dtype(dtype);
  TracedCall call{spec.name, device.type, {}, parse_attributes(spec, text.attributes)};
  call.inputs = call_views(spec, text, input_metas(spec, text, call.attributes), device);
  if (!has_work(spec, call, device))
    throw_value_error(
        fmt::format("op '{}': its outputs are empty for these shapes, so there is nothing to tune: give "
                    "extents above 0",
                    spec.name));
  return call;
}

bool is_dtype(const std::string& word) {
  const auto named = [&](DType dtype) { return word == name(dtype); };
  return std::any_of(std::begin(kAllDTypes), std::end(kAllDTypes), named);
}

/// Shapes begin with a digit, but for the one without dimensions.
void check_shape_word(const std::string& word) {
  if (word == "scalar" || (word.front() >= '0' && word.front() <= '9')) return;
  throw_value_error(
      fmt::format("'{}' is neither a shape (4096x4096, scalar) nor a dtype (f32, bf16) nor NAME=VALUE", word));
}

/// "4096x4096 4096x4096 bf16 alpha=2": shapes, dtypes and attributes of one call.
CallText parse_line(const std::string& op, const std::string& line) {
  CallText text{op, {}, {}, {}};
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find('=') != std::string::npos) {
      text.attributes.push_back(word);
    } else if (is_dtype(word)) {
      text.dtypes.push_back(word);
    } else {
      check_shape_word(word);
      text.shapes.push_back(word);
    }
  }
  return text;
}

std::string shapes_text(const std::string& path) {
  try {
    return read_input_file(path, kMostShapesBytes);
  } catch (const SystemError& error) {
    throw_value_error(fmt::format("--shapes-file: {}", error.what()));
  }
}

std::vector<TracedCall> calls_of_file(const TuneCallsText& text, Device device) {
  if (text.call.op.empty() || text.call.op == kAll)
    throw_value_error("--shapes-file goes with one op; a trace (--from-trace) names an op on each line");
  if (!text.call.shapes.empty()) throw_value_error("--shape and --shapes-file exclude each other");
  Registry::process().get(text.call.op);
  std::istringstream file(shapes_text(text.shapes_file));
  std::vector<TracedCall> calls;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (const std::size_t comment = line.find('#'); comment != std::string::npos) line.resize(comment);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      CallText words = parse_line(text.call.op, line);
      if (words.dtypes.empty()) words.dtypes = text.call.dtypes;
      words.pinned = text.call.pinned;
      words.attributes.insert(words.attributes.end(), text.call.attributes.begin(), text.call.attributes.end());
      calls.push_back(call_of(words, device));
    } catch (const UsageError& error) {
      throw UsageError(error.kind(), fmt::format("line {} of '{}': {}", number, text.shapes_file, error.what()));
    }
  }
  if (calls.empty())
    throw_value_error(
        fmt::format("--shapes-file: '{}' has no call; write one on each line, like \"4096x4096 4096x4096 bf16\"",
                    text.shapes_file));
  return calls;
}

std::vector<TracedCall> calls_of_trace(const TuneCallsText& text, Device device) {
  if (!text.call.shapes.empty() || !text.call.dtypes.empty() || !text.call.attributes.empty() ||
      !text.call.pinned.empty())
    throw_value_error(
        "--from-trace brings shapes, dtypes, attributes and where inputs lie; leave --shape, --dtype, --attr and "
        "--pinned out");
  const bool is_any_op = text.call.op.empty() || text.call.op == kAll;
  const std::string wanted = is_any_op ? std::string() : Registry::process().get(text.call.op).name;
  std::vector<TracedCall> calls;
  std::set<std::string> ops, devices;
  for (TracedCall& call : read_trace(text.trace)) {
    ops.insert(call.op);
    devices.insert(call.device == DeviceType::cuda ? "cuda" : "cpu");
    if (call.device != device.type || (!is_any_op && call.op != wanted)) continue;
    for (std::optional<TensorView>& input : call.inputs)
      if (input && input->device.is_cuda()) input->device = device;
    if (has_work(Registry::process().get(call.op), call, device)) calls.push_back(std::move(call));
  }
  if (ops.empty())
    throw_value_error(fmt::format("the trace '{}' is empty; a process with KILN_TRACE={} writes its calls to it",
                                  text.trace, text.trace));
  if (calls.empty())
    throw_value_error(fmt::format("the trace '{}' has nothing to tune of {} on {}; it has calls of {} on {}",
                                  text.trace, is_any_op ? "any op" : "op '" + wanted + "'", to_string(device),
                                  fmt::join(ops, ", "), fmt::join(devices, ", ")));
  return calls;
}

/// The first example that is not tiny: small calls are all launch.
TracedCall example_call(const OpSpec& spec, const CallText& text, Device device) {
  const auto elements = [](const Example& example) {
    std::int64_t most = 0;
    for (const TensorMeta& meta : example.inputs) most = std::max(most, num_elements(meta.shape));
    return most;
  };
  const auto largest = std::max_element(spec.examples.begin(), spec.examples.end(),
                                        [&](const auto& a, const auto& b) { return elements(a) < elements(b); });
  return {spec.name, device.type, call_views(spec, text, largest->inputs, device), largest->attributes};
}

}  // namespace

std::vector<TracedCall> calls_to_tune(const TuneCallsText& text, Device device) {
  if (!text.trace.empty()) {
    if (!text.shapes_file.empty()) throw_value_error("--from-trace and --shapes-file exclude each other");
    return calls_of_trace(text, device);
  }
  if (!text.shapes_file.empty()) return calls_of_file(text, device);
  if (text.call.op.empty()) throw_value_error("name an op, or all, or give --from-trace; 'kiln ops' lists the ops");
  if (text.call.op != kAll) {
    const OpSpec& spec = Registry::process().get(text.call.op);
    const bool says_nothing = text.call.shapes.empty() && text.call.dtypes.empty() && text.call.attributes.empty();
    if (says_nothing && !spec.examples.empty()) return {example_call(spec, text.call, device)};
    const bool takes_tensors =
        std::any_of(spec.inputs.begin(), spec.inputs.end(), [](const InputSpec& input) { return !input.optional; });
    if (text.call.shapes.empty() && takes_tensors)
      throw_value_error(fmt::format(
          "op '{}' takes tensors: give --shape, like --shape 4096x4096, once for all inputs or once per input; with "
          "neither --shape nor --dtype nor --attr an example of its own is tuned",
          spec.name));
    return {call_of(text.call, device)};
  }
  if (!text.call.shapes.empty() || !text.call.dtypes.empty() || !text.call.attributes.empty() ||
      !text.call.pinned.empty())
    throw_value_error(
        "'all' tunes each op on an example of its own; --shape, --dtype, --attr and --pinned go with one op");
  std::vector<TracedCall> calls;
  for (const std::string& op : Registry::process().names()) {
    const OpSpec& spec = Registry::process().get(op);
    if (!spec.examples.empty()) calls.push_back(example_call(spec, text.call, device));
  }
  return calls;
}

std::string describe_call(const TracedCall& call) {
  std::vector<std::string> parts;
  for (const std::optional<TensorView>& input : call.inputs)
    parts.push_back(!input ? "-"
                           : fmt::format("{} {}{}", name(input->dtype), to_string(input->shape),
                                         input->is_contiguous() ? "" : " strides " + to_string(input->strides)));
  for (const auto& [name, value] : call.attributes.entries())
    parts.push_back(fmt::format("{}={}", name, to_string(value)));
  return fmt::format("{} {}", call.op, fmt::join(parts, ", "));
}

}  // namespace kiln::cli
