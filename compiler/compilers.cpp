#include "compiler/compilers.hpp"

#include <exception>

#include "compiler/clang_library.hpp"
#include "compiler/nvrtc_compiler.hpp"

namespace kiln {
namespace {

Compiler& cpu_compiler() {
  // Never destroyed: a compile that was left behind may still run while the process exits.
  static Compiler& compiler = *make_clang_compiler().release();
  return compiler;
}

Compiler& cuda_compiler() {
  // As above. A throw leaves the static unset, so a process that gains the library later (a test, a late dlopen path)
  // may try again.
  static Compiler& compiler = *make_nvrtc_compiler().release();
  return compiler;
}

}  // namespace

Compiler& compiler_for(DeviceType type) {
  return type == DeviceType::cpu ? cpu_compiler() : cuda_compiler();
}

std::string compiler_problem(DeviceType type) noexcept {
  try {
    return type == DeviceType::cpu ? clang_problem() : nvrtc_problem();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace kiln
