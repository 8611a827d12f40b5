#include "cli/command_line.hpp"

#include <csignal>

int main(int argc, char** argv) {
  // A file that grows beyond what `ulimit -f` allows is then an error like a full disk, and not this process's end.
  std::signal(SIGXFSZ, SIG_IGN);
  // Whoever started this process may have had it ignored, which is inherited, and then nobody could tell how the
  // programs that it runs have ended.
  std::signal(SIGCHLD, SIG_DFL);
  return kiln::cli::main_with_arguments(argc, argv);
}
