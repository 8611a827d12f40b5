// Stands in for compiler/clang_library.cpp in a build without the CPU target.

#include "compiler/clang_library.hpp"

#include "core/absent_target.hpp"
#include "core/errors.hpp"

namespace kiln {

std::unique_ptr<Compiler> make_clang_compiler() {
  throw DeviceError("loading the CPU compiler", 0, kNoCpuTarget);
}

std::string clang_problem() {
  return kNoCpuTarget;
}

}  // namespace kiln
