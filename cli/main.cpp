#include "cli/command_line.hpp"

#include <csignal>

int main(int argc, char** argv) {
  // A file that grows beyond what `ulimit -f` allows is then an error like a full disk, and not this process's end.
  std::signal(SIGXFSZ, SIG_IGN);
  return kiln::cli::main_with_arguments(argc, argv);
}
