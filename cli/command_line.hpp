#pragma once

namespace kiln::cli {

/// Parses the command line, runs the command, reports errors on stderr ("kiln: error: ...").
/// Returns the exit status: 0 success, 1 the work failed, 2 the command line is wrong.
int main_with_arguments(int argc, char** argv);

}  // namespace kiln::cli
