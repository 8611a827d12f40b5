#include "cli/experiment_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "core/errors.hpp"
#include "core/subprocess.hpp"

namespace kiln::cli {
namespace {

/// The first argument is a folder to look for packages in first; empty for none.
constexpr const char* kImport =
    "import sys; folder = sys.argv.pop(1); sys.path[:0] = [folder] if folder else []; "
    "from kiln.experiments.command import main";
constexpr const char* kRun = "; sys.exit(main(sys.argv[1:]))";

/// Of the build tree that this program is in, whose package goes before any other that is installed: bin/kiln beside
/// python/kiln. Empty anywhere else.
std::string packages_beside_program() {
  std::error_code problem;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::filesystem::path packages = program.parent_path().parent_path() / "python";
  const bool is_there = !problem && std::filesystem::is_regular_file(packages / "kiln" / "__init__.py", problem);
  return is_there ? packages.string() : std::string();
}

/// The Python that a build tree's package was built for; else the first on PATH.
std::string interpreter_of(const std::string& packages) {
  std::error_code problem;
  const std::string built = KILN_BUILD_PYTHON;
  return !packages.empty() && std::filesystem::exists(built, problem) ? built : "python3";
}

/// Where Python says what is wrong.
std::string last_line_of(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t start = text.rfind('\n');
  return start == std::string::npos ? text : text.substr(start + 1);
}

}  // namespace

void experiment_command(std::span<char* const> arguments) {
  std::string packages = packages_beside_program();
  std::string interpreter = interpreter_of(packages);
  const auto import = run_subprocess({interpreter, "-c", kImport, packages});
  if (!import) throw SystemError("experiments need python3, and there is none on PATH");
  if (import->exit_status != 0)
    throw SystemError(
        fmt::format("experiments are in the Python package kiln, which {} cannot import: {} (install it: "
                    "{} -m pip install kiln)",
                    interpreter, last_line_of(import->standard_error), interpreter));
  std::string option = "-c", script = std::string(kImport) + kRun;
  std::vector<char*> command{interpreter.data(), option.data(), script.data(), packages.data()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.push_back(nullptr);
  std::fflush(stdout);
  execvp(interpreter.c_str(), command.data());
  throw SystemError(fmt::format("{} cannot be started: {}", interpreter, std::generic_category().message(errno)));
}

}  // namespace kiln::cli
