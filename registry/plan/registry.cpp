#include "registry/plan/registry.hpp"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <utility>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"
#include "ops/builtin_ops.hpp"

namespace kiln {
namespace {

void check_spec(const OpSpec& spec) {
  if (spec.name.empty()) throw_value_error("an op needs a name");
  const bool legal = std::all_of(spec.name.begin(), spec.name.end(), [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' || letter == ':';
  });
  if (!legal) throw_value_error("op name '" + spec.name + "' may hold letters, digits, '_', '.' and ':' only");
  const auto require = [&](bool present, const std::string& part) {
    if (!present) throw_value_error("the spec of op '" + spec.name + "' lacks " + part);
  };
  const bool changes_inputs =
      std::any_of(spec.inputs.begin(), spec.inputs.end(), [](const InputSpec& input) { return input.mutated; });
  require(changes_inputs || !spec.outputs.empty(), "outputs, or an input that it changes");
  require(!changes_inputs || spec.outputs.empty(),
          "a decision: an op either makes outputs or changes inputs, and it lists both");
  require(spec.inputs.empty() || !spec.dtypes.empty(), "dtypes");
  require(static_cast<bool>(spec.infer), "infer (shapes and dtypes of the outputs)");
  require(!spec.variants.empty(), "variants");
  for (const Variant& variant : spec.variants) {
    const std::string where = " in variant '" + variant.name + "'";
    require(!variant.name.empty(), "a variant's name");
    require(!variant.source.path.empty() && !variant.source.text.empty(), "the kernel source" + where);
    require(!variant.kernel.empty(), "the kernel's name" + where);
    require(variant.serves && variant.space && variant.default_config && variant.plan,
            "serves, space, default_config or plan" + where);
  }
  const auto first_optional =
      std::find_if(spec.inputs.begin(), spec.inputs.end(), [](const InputSpec& input) { return input.optional; });
  require(std::all_of(first_optional, spec.inputs.end(), [](const InputSpec& input) { return input.optional; }),
          "an order of inputs with the optional ones last");
  require(std::none_of(spec.inputs.begin(), spec.inputs.end(),
                       [&](const InputSpec& input) { return input.repeated && &input != &spec.inputs.back(); }),
          "an order of inputs with the repeated one last");
}

}  // namespace

Registry::Registry() {
  for (OpSpec& spec : builtin_ops()) register_op(std::move(spec));
  for (const auto& [name, spec] : specs_) builtin_.insert(spec.get());
}

Registry& Registry::process() {
  static Registry& registry = *new Registry;  // never destroyed: specs live as long as any plan that points at one
  return registry;
}

void Registry::register_op(OpSpec spec) {
  check_spec(spec);
  const std::unique_lock lock(mutex_);
  if (specs_.contains(spec.name))
    throw_value_error("an op named '" + spec.name + "' is already registered; a registered op is never replaced");
  auto owned = std::make_unique<const OpSpec>(std::move(spec));
  specs_.emplace(owned->name, std::move(owned));
}

const OpSpec* Registry::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = specs_.find(name);
  return found == specs_.end() ? nullptr : found->second.get();
}

const OpSpec& Registry::get(std::string_view name) const {
  if (const OpSpec* spec = find(name)) return *spec;
  throw UnknownOpError(std::string(name), "unknown op '" + std::string(name) + "'" + did_you_mean(name, names()) +
                                              " ('kiln ops' lists them all)");
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> all;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [name, spec] : specs_) all.push_back(name);
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace kiln
