#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/compiler.hpp"

namespace kiln {

/// The CUDA compiler over libnvrtc, which is opened on first use: KILN_NVRTC_PATH (the library, or a folder that holds
/// it, such as that of pip's nvidia-cuda-nvrtc) when that is set and nothing else then; otherwise the loader's search
/// path, then /usr/local/cuda. DeviceError that says what to install when there is none, or when it is older than
/// CUDA 12.0.
///
/// Targets are "sm_90a" and the like. A target whose `features` are "ptx" gets PTX of the same architecture instead of
/// machine code.
std::unique_ptr<Compiler> make_nvrtc_compiler();
/// Why make_nvrtc_compiler would throw, or empty.
std::string nvrtc_problem();
/// 13000 for NVRTC 13.0, as the driver counts; 0 when there is none.
int nvrtc_version();
/// Whether a driver may refuse machine code of this NVRTC: its major version is older (within one, CUDA promises that
/// cubins load). Versions as 13000.
constexpr bool needs_ptx(int driver_version, int nvrtc_version) noexcept {
  return driver_version > 0 && driver_version / 1000 < nvrtc_version / 1000;
}

/// What ptxas says of a kernel instance, which needs no GPU.
struct PtxasReport {
  std::int32_t registers = 0;
  std::int32_t static_shared_bytes = 0;
  std::int32_t dynamic_shared_bytes = 0;  ///< as Artifact has it
  std::int32_t stack_bytes = 0;           ///< per thread: local arrays and spills
  std::int32_t spill_store_bytes = 0;
  std::int32_t spill_load_bytes = 0;
  bool serializes_products = false;  ///< each of wgmma's products is waited for before the next (ptxas: C7510 and on)
  std::string ptx;                   ///< of the code that it speaks of
};
/// Compiles `request` for its sm_XX and reads ptxas's statistics; `names_lines`: the PTX has the source's lines (see
/// ptx_lines.hpp). CompileError as Compiler::compile; DeviceError as
/// make_nvrtc_compiler.
PtxasReport ptxas_report(const CompileRequest& request, bool names_lines = false);

}  // namespace kiln
