#pragma once

namespace kiln::cli {

/// One line on stderr when the cache of compiled kernels could not be used or written, so that whoever waits for the
/// same compile again and again learns why. For the end of a command whose work it did not stop.
void warn_of_cache_problem();

}  // namespace kiln::cli
