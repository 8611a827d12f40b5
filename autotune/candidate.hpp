#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/config.hpp"

namespace kiln {

/// A config that may be chosen.
struct Candidate {
  Config config;
  /// No run can take less (the roofline, say); 0 when nothing is known. A candidate whose bound is above what the best
  /// one takes is not measured.
  double lower_bound_us = 0;
  /// Why it is not even tried ("needs 240 KiB of shared memory, the device has 227"); empty: it may be.
  std::string ruled_out;
};

/// What is known of a config before it is compiled. Both may be empty.
struct CandidateFilters {
  /// Why the device cannot run it, or nothing.
  std::function<std::string(const Config&)> over_resources;
  std::function<double(const Config&)> lower_bound_us;
};

/// Every config of the space that its constraints allow, in the space's order, which breaks ties.
std::vector<Candidate> candidates_of(const ConfigSpace& space, const CandidateFilters& filters = {});

/// The place of `config` among the candidates. UsageError(value) when it is not one of them.
std::size_t index_of(const std::vector<Candidate>& candidates, const Config& config);

}  // namespace kiln
