#include "python/bindings/command.hpp"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.hpp"
#include "python/bindings/gil.hpp"

namespace kiln::python {
namespace {

/// The arguments as main has them; `use(argc, argv)` without the GIL.
template <typename Use>
int with_arguments(std::vector<std::string> arguments, const Use& use) {
  arguments.insert(arguments.begin(), "kiln");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const GilReleased released;
  return use(static_cast<int>(arguments.size()), argv.data());
}

int run_command(std::vector<std::string> arguments) {
  return with_arguments(std::move(arguments), cli::main_with_arguments);
}

int refuse_command(std::vector<std::string> arguments, const std::string& message) {
  return with_arguments(std::move(arguments),
                        [&](int argc, char** argv) { return cli::refuse_command_line(argc, argv, message.c_str()); });
}

}  // namespace

void bind_command(py::module_& module) {
  module.def("run_command", run_command, py::arg("arguments"),
             "Runs `kiln ARGUMENTS` in this process, on its standard output and error; returns the exit status.");
  module.def("refuse_command", refuse_command, py::arg("arguments"), py::arg("message"),
             "Prints an error in the form that `kiln ARGUMENTS` would have it; returns 2.");
}

}  // namespace kiln::python
