// Stands in for compiler/nvrtc_compiler.cpp in a build without the NVIDIA target.

#include "compiler/nvrtc_compiler.hpp"

#include "core/absent_target.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("loading the CUDA compiler", 0, kNoCudaTarget);
}

}  // namespace

std::unique_ptr<Compiler> make_nvrtc_compiler() {
  refuse();
}

std::string nvrtc_problem() {
  return kNoCudaTarget;
}

int nvrtc_version() {
  return 0;
}

PtxasReport ptxas_report(const CompileRequest& /*request*/, bool /*names_lines*/) {
  refuse();
}

}  // namespace kiln
