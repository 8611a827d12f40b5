#include "cli/plot.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/plot_script.hpp"
#include "core/errors.hpp"
#include "core/output_file.hpp"
#include "core/subprocess.hpp"

namespace kiln::cli {
namespace {

constexpr const char* kPython = "python3";

/// A file that goes away with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "kiln-plot-XXXXXX").string();
    const int file = mkstemp(path_.data());
    const bool is_written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) close(file);
    if (!is_written) throw SystemError(fmt::format("the temporary file '{}' cannot be written", path_));
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The last line, which is where Python says what is wrong.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t start = text.rfind('\n');
  return start == std::string::npos ? text : text.substr(start + 1);
}

void run_python(const std::vector<std::string>& arguments, const std::string& purpose) {
  std::vector<std::string> command{kPython};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto result = run_subprocess(command);
  if (!result.has_value())
    throw SystemError(fmt::format("{} needs python3 with matplotlib, and there is no python3 on PATH", purpose));
  if (result->exit_status == 0) return;
  const std::string problem = last_line(result->standard_error);
  const bool is_missing = problem.find("No module named") != std::string::npos;
  throw SystemError(fmt::format("{} failed: {}{}", purpose, problem,
                                is_missing ? " (install it: python3 -m pip install matplotlib)" : ""));
}

}  // namespace

void check_plot(const std::string& path) {
  if (std::filesystem::path(path).extension() != ".png")
    throw_value_error(fmt::format("--plot is '{}'; expected a file name that ends in .png", path));
  try {
    check_output_path(path);
  } catch (const SystemError& error) {
    throw_value_error(fmt::format("--plot: {}", error.what()));
  }
  try {
    run_python({"-c", "import matplotlib"}, "--plot");
  } catch (const SystemError& error) {
    throw_value_error(error.what());
  }
}

void plot_png(const std::string& kind, const nlohmann::ordered_json& data, const std::string& path) {
  const TemporaryFile input(data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  run_python({"-c", kPlotScript, kind, input.path(), path}, "--plot");
}

}  // namespace kiln::cli
