#include "cli/command_line.hpp"

int main(int argc, char** argv) {
  return kiln::cli::main_with_arguments(argc, argv);
}
