#include "cli/cache_warning.hpp"

#include <cstdio>
#include <string>

#include "compiler/artifact_cache.hpp"

namespace kiln::cli {

void warn_of_cache_problem() {
  const std::string problem = ArtifactCache::process().disk().problem();
  if (!problem.empty()) std::fputs(("kiln: warning: " + problem + '\n').c_str(), stderr);
}

}  // namespace kiln::cli
