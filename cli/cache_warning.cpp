#include "cli/cache_warning.hpp"

#include <string>

#include "cli/standard_streams.hpp"
#include "compiler/artifact_cache.hpp"

namespace kiln::cli {

void warn_of_cache_problem() {
  const std::string problem = ArtifactCache::process().disk().problem();
  if (!problem.empty()) print_warning(problem);
}

}  // namespace kiln::cli
