#pragma once

namespace kiln::cli {

/// Parses the command line, runs the command, reports errors on stderr ("kiln: error: ...", or with --json an object
/// like
/// {"error": "..."}). Returns the exit status: 0 success, 1 the work failed, 2 the command line is wrong, 128 + a
/// signal that ended the command early and left it what it had.
int main_with_arguments(int argc, char** argv);

/// Reports an error that was found before the command got to see `argv`, in the form that `argv` asks for. 2.
int refuse_command_line(int argc, char** argv, const char* message);

}  // namespace kiln::cli
