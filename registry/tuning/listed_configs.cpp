#include "registry/tuning/listed_configs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"

namespace kiln::detail {
namespace {

/// Beyond so many an error lists no more.
constexpr std::size_t kMostShown = 5;

std::vector<std::string> names_of(const Config& config) {
  std::vector<std::string> names;
  for (const auto& [name, value] : config.entries()) names.push_back(name);
  return names;
}

}  // namespace

std::vector<Config> completed_configs(const ConfigSpace& space, const Config& base, std::span<const Config> given) {
  std::vector<Config> completed;
  for (std::size_t i = 0; i < given.size(); ++i) {
    Config config;
    try {
      for (const auto& [name, value] : base.entries()) config.set(name, value);
      for (const auto& [name, value] : given[i].entries()) config.set(name, value);
      space.validate(config);
    } catch (const UsageError& error) {
      throw_value_error(fmt::format("configs[{}] ({}): {}", i, to_string(given[i]), error.what()));
    }
    if (std::ranges::find(completed, config) == completed.end()) completed.push_back(config);
  }
  return completed;
}

void check_configs(std::span<const Config> given) {
  if (given.empty()) throw_value_error("configs is empty; expected a list of one config or more to choose from");
  for (std::size_t i = 1; i < given.size(); ++i) {
    const auto before = given.first(i);
    if (const auto same = std::ranges::find(before, given[i]); same != before.end())
      throw_value_error(
          fmt::format("configs[{}] is configs[{}] again ({})", i, same - before.begin(), to_string(given[i])));
  }
}

void check_same_tunables(std::span<const Config> given) {
  const auto check = [&](std::size_t one, std::size_t other) {
    for (const auto& [name, value] : given[one].entries())
      if (given[other].find(name) == nullptr)
        throw_value_error(fmt::format(
            "all configs of a list name the same tunables, but configs[{}] has '{}' and configs[{}] has not{}", one,
            name, other, did_you_mean(name, names_of(given[other]))));
  };
  for (std::size_t i = 1; i < given.size(); ++i) {
    check(i, 0);
    check(0, i);
  }
}

void check_some_worked(const std::string& what, std::span<const Config> listed,
                       std::span<const CandidateEvidence> evidence) {
  std::vector<const CandidateEvidence*> failed;
  for (const Config& config : listed) {
    const auto found = std::ranges::find(evidence, config, &CandidateEvidence::config);
    if (found == evidence.end() || !is_failure(found->outcome)) return;
    failed.push_back(&*found);
  }
  std::string message =
      failed.size() == 1 ? fmt::format("{}: the config that was given cannot be used:", what)
                         : fmt::format("{}: none of the {} configs that were given can be used:", what, failed.size());
  for (std::size_t i = 0; i < failed.size() && i < kMostShown; ++i)
    message += fmt::format("{} {} {} ({})", i == 0 ? "" : ";", to_string(failed[i]->config),
                           to_string(failed[i]->outcome), failed[i]->reason);
  if (failed.size() > kMostShown) message += fmt::format("; and {} more", failed.size() - kMostShown);
  throw_value_error(message);
}

}  // namespace kiln::detail
