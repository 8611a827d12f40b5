#include "python/bindings/command.hpp"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "python/bindings/gil.hpp"

namespace kiln::python {
namespace {

int run_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "kiln");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const GilReleased released;
  return cli::main_with_arguments(static_cast<int>(arguments.size()), argv.data());
}

}  // namespace

void bind_command(py::module_& module) {
  module.def("run_command", run_command, py::arg("arguments"),
             "Runs `kiln ARGUMENTS` in this process, on its standard output and error; returns the exit status.");
}

}  // namespace kiln::python
