#include "compiler/compiler.hpp"

#include <exception>

#include "core/errors.hpp"

#ifdef KILN_HAS_CPU
#include "compiler/clang_library.hpp"
#endif
#ifdef KILN_HAS_CUDA
#include "compiler/nvrtc_compiler.hpp"
#endif

namespace kiln {
namespace {

std::string cpu_problem() {
#ifdef KILN_HAS_CPU
  return clang_problem();
#else
  return "this Kiln was built with -DKILN_CPU=OFF; rebuild with -DKILN_CPU=ON (needs LLVM and Clang 19)";
#endif
}

std::string cuda_problem() {
#ifdef KILN_HAS_CUDA
  return nvrtc_problem();
#else
  return "this Kiln was built without the NVIDIA target; rebuild with -DKILN_CUDA=ON (needs the CUDA toolkit's "
         "headers)";
#endif
}

[[noreturn, maybe_unused]] void throw_unavailable(const char* target, const std::string& problem) {
  throw DeviceError(std::string("loading the ") + target + " compiler", 0, problem);
}

Compiler& cpu_compiler() {
#ifdef KILN_HAS_CPU
  static const std::unique_ptr<Compiler> compiler = make_clang_compiler();
  return *compiler;
#else
  throw_unavailable("CPU", cpu_problem());
#endif
}

Compiler& cuda_compiler() {
#ifdef KILN_HAS_CUDA
  // A throw leaves the static unset, so a process that gains the library later (a test, a late dlopen path) may try
  // again.
  static const std::unique_ptr<Compiler> compiler = make_nvrtc_compiler();
  return *compiler;
#else
  throw_unavailable("CUDA", cuda_problem());
#endif
}

}  // namespace

Compiler& compiler_for(DeviceType type) {
  return type == DeviceType::cpu ? cpu_compiler() : cuda_compiler();
}

std::string compiler_problem(DeviceType type) noexcept {
  try {
    return type == DeviceType::cpu ? cpu_problem() : cuda_problem();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace kiln
