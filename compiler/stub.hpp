#pragma once

#include <string>

#include "compiler/compile_request.hpp"

namespace kiln {

/// Symbol of the generated CPU entry point; a CUDA entry is the instance's own lowered name.
inline constexpr const char* kCpuEntry = "kiln_entry";

/// The translation unit that instantiates the kernel: a few lines that include the kernel file and, on the CPU, define
///   extern "C" void kiln_entry(void* const* parameters, const int64_t* grid, int64_t begin, int64_t end)
/// which runs programs [begin, end) of the linearised grid.
std::string stub(const CompileRequest& request);

}  // namespace kiln
