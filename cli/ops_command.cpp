#include "cli/ops_command.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/attribute_text.hpp"
#include "cli/call_inputs.hpp"
#include "cli/standard_streams.hpp"
#include "compiler/host_cpu.hpp"
#include "core/text_table.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/device_info.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> names_of(const std::vector<DType>& dtypes) {
  std::vector<std::string> names;
  for (const DType dtype : dtypes) names.emplace_back(name(dtype));
  return names;
}

/// The targets whose spaces are shown: this machine's, and Hopper in place of a GPU that is not there.
std::vector<Target> shown_targets() {
  const Target cuda = device_count(DeviceType::cuda) > 0 ? device_info(Device::cuda(0)).target : cuda_target(9, 0);
  return {host_cpu_target(), cuda};
}

Json value_json(const AttributeValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return nullptr;
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* large = std::get_if<std::uint64_t>(&value)) return *large;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return to_string(value);
}

Json variant_json(const Variant& variant) {
  Json json = {
      {"name", variant.name}, {"doc", variant.doc}, {"kernel", variant.kernel}, {"source", variant.source.path}};
  for (const Target& target : shown_targets()) {
    const ConfigSpace space = variant.space(target);
    Json tunables = Json::object();
    for (const Tunable& tunable : space.tunables()) tunables[tunable.name] = tunable.values;
    Json constraints = Json::array();
    for (const Constraint& constraint : space.constraints()) constraints.push_back(constraint.text);
    json["spaces"][to_string(target)] = {{"tunables", tunables}, {"constraints", constraints}};
  }
  return json;
}

/// The inputs that an output may be.
Json in_place_inputs(const OpSpec& spec) {
  Json names = Json::array();
  for (const InputSpec& input : spec.inputs)
    if (spec.aliasing == Aliasing::elementwise || (spec.aliasing == Aliasing::first_input && names.empty()))
      names.push_back(input.name);
  return names;
}

std::string aliasing_text(const OpSpec& spec) {
  if (spec.aliasing == Aliasing::any) return "tensors may overlap as the kernel's author allows";
  if (spec.outputs.empty())
    return fmt::format("{} may overlap no other tensor", fmt::join(result_names(spec), " and "));
  switch (spec.aliasing) {
    case Aliasing::none:
    case Aliasing::any:
      break;
    case Aliasing::elementwise:
      return "an output may be exactly one of the inputs (in place)";
    case Aliasing::first_input:
      return fmt::format("{} may be exactly {} (in place)", spec.outputs.front().name, spec.inputs.front().name);
  }
  return "outputs may not overlap inputs";
}

Json op_json(const OpSpec& spec) {
  Json json;
  json["name"] = spec.name;
  json["signature"] = signature(spec);
  json["doc"] = spec.doc;
  json["inputs"] = Json::array();
  for (const InputSpec& input : spec.inputs)
    json["inputs"].push_back({{"name", input.name},
                              {"doc", input.doc},
                              {"optional", input.optional},
                              {"changed", input.mutated},
                              {"pinned", input.pinned},
                              {"dtypes", names_of(input.dtypes.empty() ? spec.dtypes : input.dtypes)}});
  json["outputs"] = Json::array();
  for (const OutputSpec& output : spec.outputs) json["outputs"].push_back({{"name", output.name}, {"doc", output.doc}});
  json["attributes"] = Json::array();
  for (const AttributeSpec& attribute : spec.attributes) {
    Json entry = {{"name", attribute.name},
                  {"type", attribute_type(attribute)},
                  {"required", attribute.required},
                  {"doc", attribute.doc}};
    if (!attribute.required) entry["default"] = value_json(attribute.fallback);
    json["attributes"].push_back(entry);
  }
  json["dtypes"] = names_of(spec.dtypes);
  json["in_place"] = in_place_inputs(spec);
  json["variants"] = Json::array();
  for (const Variant& variant : spec.variants) json["variants"].push_back(variant_json(variant));
  json["examples"] = Json::array();
  for (const Example& example : spec.examples) json["examples"].push_back(example_command(spec, example));
  return json;
}

/// "optional, changed in place".
std::string role(const InputSpec& input) {
  std::vector<std::string> words;
  if (input.optional) words.emplace_back("optional");
  if (input.mutated) words.emplace_back("changed in place");
  if (input.pinned) words.emplace_back("may be in pinned host memory");
  if (!input.dtypes.empty()) words.push_back(fmt::format("{}", fmt::join(names_of(input.dtypes), " ")));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string section(const std::string& title, const std::vector<std::vector<std::string>>& rows) {
  return rows.empty() ? std::string() : "\n" + title + "\n" + format_table(rows, 2);
}

std::string op_text(const OpSpec& spec) {
  std::string text = signature(spec) + "\n  " + spec.doc + "\n";
  std::vector<std::vector<std::string>> rows;
  for (const InputSpec& input : spec.inputs) rows.push_back({input.name, role(input), input.doc});
  text += section("Inputs", rows);
  rows.clear();
  for (const OutputSpec& output : spec.outputs) rows.push_back({output.name, output.doc});
  text += section("Outputs", rows);
  rows.clear();
  for (const AttributeSpec& attribute : spec.attributes)
    rows.push_back({attribute.name, std::string(attribute_type(attribute)),
                    attribute.required ? "required" : "default " + to_string(attribute.fallback), attribute.doc});
  text += section("Attributes", rows);
  text += section("Dtypes", {{fmt::format("{}", fmt::join(names_of(spec.dtypes), " "))}});
  text += section("Memory", {{aliasing_text(spec)}});
  text += "\nVariants, in order of preference\n";
  for (const Variant& variant : spec.variants) {
    text += format_table({{variant.name, variant.doc}}, 2);
    rows.clear();
    for (const Target& target : shown_targets()) {
      const ConfigSpace space = variant.space(target);
      std::vector<std::string> parts;
      for (const Tunable& tunable : space.tunables())
        parts.push_back(fmt::format("{}: {}", tunable.name, fmt::join(tunable.values, " ")));
      for (const Constraint& constraint : space.constraints()) parts.push_back(constraint.text);
      if (parts.empty()) parts.emplace_back("no tunables");
      for (std::size_t i = 0; i < parts.size(); ++i) rows.push_back({i == 0 ? to_string(target) : "", parts[i]});
    }
    text += format_table(rows, 4);
  }
  rows.clear();
  constexpr std::size_t kMaxExamples = 6;
  for (const Example& example : spec.examples)
    if (rows.size() < kMaxExamples) rows.push_back({example_command(spec, example)});
  text += section("Examples", rows);
  return text;
}

}  // namespace

int ops_command(const OpsOptions& options) {
  const Registry& registry = Registry::process();
  if (!options.op.empty()) {
    const OpSpec& spec = registry.get(options.op);
    if (options.json)
      print_json(op_json(spec));
    else
      print_text(op_text(spec));
  } else if (options.json) {
    Json list = Json::array();
    for (const std::string& op : registry.names()) {
      const OpSpec& spec = registry.get(op);
      list.push_back(
          {{"name", spec.name}, {"signature", signature(spec)}, {"doc", spec.doc}, {"dtypes", names_of(spec.dtypes)}});
    }
    print_json(list);
  } else {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& op : registry.names()) {
      const OpSpec& spec = registry.get(op);
      rows.push_back({signature(spec), spec.doc});
    }
    print_text(format_table(rows) + fmt::format("\n{} ops; 'kiln ops OP' shows one in full\n", rows.size()));
  }
  return 0;
}

}  // namespace kiln::cli
