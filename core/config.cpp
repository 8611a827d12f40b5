#include "core/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"

namespace kiln {
namespace {

constexpr std::string_view kSeparators = ", \t\r\n";

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || is_digit(c); });
}

Config::Entry parse_entry(std::string_view token, std::string_view text) {
  const auto refuse = [&](std::string_view reason) {
    throw_value_error(
        fmt::format("config '{}': '{}' {}; expected NAME=INTEGER, such as BLOCK_SIZE=1024", text, token, reason));
  };
  const std::size_t equals = token.find('=');
  if (equals == std::string_view::npos) refuse("has no '='");
  const std::string_view name = token.substr(0, equals);
  const std::string_view digits = token.substr(equals + 1);
  if (!is_name(name)) refuse("does not start with a name");
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) refuse("does not fit a 64-bit integer");
  if (error != std::errc() || stop != digits.data() + digits.size()) refuse("has no integer after '='");
  return {std::string(name), value};
}

bool holds(const std::vector<Constraint>& constraints, const Config& config) {
  return std::all_of(constraints.begin(), constraints.end(), [&](const Constraint& c) { return c.holds(config); });
}

std::string legal_values(const Tunable& tunable) {
  return fmt::format("{} {}", tunable.values.size() == 1 ? "the legal value is" : "legal values are",
                     fmt::join(tunable.values, ", "));
}

}  // namespace

void Config::set(std::string_view name, std::int64_t value) {
  for (Entry& entry : entries_)
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  entries_.emplace_back(name, value);
}

const std::int64_t* Config::find(std::string_view name) const noexcept {
  for (const Entry& entry : entries_)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

std::int64_t Config::at(std::string_view name) const {
  if (const std::int64_t* value = find(name)) return *value;
  throw InternalError(fmt::format("config '{}' has no '{}'", to_string(*this), name));
}

std::string to_string(const Config& config) {
  std::string text;
  for (const auto& [name, value] : config.entries())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

Config parse_config(std::string_view text) {
  Config config;
  std::size_t begin = text.find_first_not_of(kSeparators);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const auto [name, value] = parse_entry(text.substr(begin, end - begin), text);
    if (config.find(name) != nullptr) throw_value_error(fmt::format("config '{}': '{}' is given twice", text, name));
    config.set(name, value);
    begin = text.find_first_not_of(kSeparators, end);
  }
  return config;
}

std::vector<Config> ConfigSpace::enumerate() const {
  std::vector<Config> configs;
  Config config;
  // Copies only those that hold: of some spaces one in forty.
  const auto choose_from = [&](auto& self, std::size_t tunable) -> void {
    if (tunable == tunables_.size()) {
      if (holds(constraints_, config)) configs.push_back(config);
      return;
    }
    for (const std::int64_t value : tunables_[tunable].values) {
      config.set(tunables_[tunable].name, value);
      self(self, tunable + 1);
    }
  };
  choose_from(choose_from, 0);
  return configs;
}

void ConfigSpace::validate(const Config& config) const {
  std::vector<std::string> names;
  for (const Tunable& tunable : tunables_) names.push_back(tunable.name);
  for (const auto& [name, value] : config.entries()) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw_value_error(fmt::format(
          "there is no tunable '{}'{}{}", name, did_you_mean(name, names),
          names.empty() ? "; this kernel has none" : fmt::format(" (tunables: {})", fmt::join(names, ", "))));
    const auto same_name = [&](const Config::Entry& entry) { return entry.first == name; };
    if (std::count_if(config.entries().begin(), config.entries().end(), same_name) > 1)
      throw_value_error(fmt::format("tunable '{}' is given twice in config '{}'", name, to_string(config)));
  }
  for (const Tunable& tunable : tunables_) {
    const std::int64_t* value = config.find(tunable.name);
    if (value == nullptr)
      throw_value_error(
          fmt::format("config '{}' lacks tunable '{}': {}", to_string(config), tunable.name, legal_values(tunable)));
    if (std::find(tunable.values.begin(), tunable.values.end(), *value) == tunable.values.end())
      throw_value_error(fmt::format("tunable '{}' cannot be {}: {}", tunable.name, *value, legal_values(tunable)));
  }
  for (const Constraint& constraint : constraints_)
    if (!constraint.holds(config))
      throw_value_error(fmt::format("config '{}' breaks the constraint {}", to_string(config), constraint.text));
}

std::string ConfigSpace::signature() const {
  std::string text;
  for (const Tunable& tunable : tunables_)
    text += fmt::format("{} in [{}]\n", tunable.name, fmt::join(tunable.values, ","));
  for (const Constraint& constraint : constraints_) text += fmt::format("where {}\n", constraint.text);
  return text;
}

}  // namespace kiln
