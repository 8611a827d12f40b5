#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compiler.hpp"
#include "compiler/kernel_source.hpp"

namespace kiln {

/// The CPU compiler; libkiln-clang.so is opened at its first compile, so that a process whose objects all come from the
/// cache never loads Clang.
std::unique_ptr<Compiler> make_clang_compiler();
/// Why a compile would fail for want of libkiln-clang.so, or empty. Looks for the file, does not open it.
std::string clang_problem();

/// What crosses into libkiln-clang.so: plain data in, plain data out, no exceptions, so that the library needs nothing
/// of libkiln's.
struct ClangJob {
  enum class Output { object, llvm_ir, assembly };
  std::string_view stub;                     ///< the main file's text
  const std::vector<KernelSource>* sources;  ///< every file it may include
  std::string_view entry;                    ///< the one function that is kept
  std::string_view tune_cpu;                 ///< LLVM's name of the CPU to schedule for; unknown names mean generic
  std::string_view features;                 ///< "+avx2,+avx512f": the instructions that may be used
  bool line_info = false;
  Output output = Output::object;
};
struct ClangResult {
  bool ok = false;
  std::string bytes;  ///< object or text
  std::string log;    ///< diagnostics, warnings included
};
using ClangCompileFunction = void (*)(const ClangJob& job, ClangResult& result);

inline constexpr const char* kClangCompileFunctionName = "kiln_clang_compile";

}  // namespace kiln
