#include "autotune/candidate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/errors.hpp"

namespace kiln {

std::vector<Candidate> candidates_of(const ConfigSpace& space, const CandidateFilters& filters) {
  std::vector<Candidate> candidates;
  for (Config& config : space.enumerate()) {
    Candidate candidate;
    if (filters.over_resources) candidate.ruled_out = filters.over_resources(config);
    if (filters.lower_bound_us) candidate.lower_bound_us = filters.lower_bound_us(config);
    candidate.config = std::move(config);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

std::size_t index_of(const std::vector<Candidate>& candidates, const Config& config) {
  const auto same = [&](const Candidate& candidate) { return candidate.config == config; };
  const auto found = std::find_if(candidates.begin(), candidates.end(), same);
  if (found == candidates.end())
    throw_value_error(fmt::format("config '{}' is not among the {} candidates", to_string(config), candidates.size()));
  return static_cast<std::size_t>(found - candidates.begin());
}

}  // namespace kiln
