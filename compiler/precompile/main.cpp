// precompile <header> <output file>: what the build runs once libkiln-clang.so is linked.
#include <cstdio>
#include <exception>

#include "compiler/clang_library.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: precompile <header, relative to the source root> <output file>\n");
    return 2;
  }
  try {
    kiln::precompile_header(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "precompile: %s\n", error.what());
    return 1;
  }
}
