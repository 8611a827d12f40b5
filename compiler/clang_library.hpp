#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile_bounds.hpp"
#include "compiler/compiler.hpp"
#include "compiler/kernel_source.hpp"

namespace kiln {

/// The CPU compiler; libkiln-clang.so is opened at its first compile, so that a process whose objects all come from the
/// cache never loads Clang.
std::unique_ptr<Compiler> make_clang_compiler();
/// Why a compile would fail for want of libkiln-clang.so, or empty. Looks for the file, does not open it.
std::string clang_problem();
/// Makes the precompiled header of an embedded header and stores it. CompileError when it does not parse, SystemError
/// when the file cannot be written.
void precompile_header(const std::string& root, const std::filesystem::path& output);

/// What crosses into libkiln-clang.so: plain data in, plain data out, no exceptions, so that the library needs nothing
/// of libkiln's.
struct ClangJob {
  enum class Output { object, llvm_ir, assembly, precompiled_header };
  std::string_view stub;                     ///< the main file's text
  const std::vector<KernelSource>* sources;  ///< every file it may include
  std::string_view entry;                    ///< the one function that is kept
  std::string_view tune_cpu;                 ///< LLVM's name of the CPU to schedule for; unknown names mean generic
  std::string_view features;                 ///< "+avx2,+avx512f": the instructions that may be used
  std::string_view header_stub;              ///< with `header`: the stub that it was made from
  std::string_view header;                   ///< a precompiled header to start from, or empty; bytes as they came out
  bool line_info = false;
  Output output = Output::object;
};
struct ClangResult {
  bool ok = false;
  std::string bytes;  ///< object or text
  std::string log;    ///< diagnostics, warnings included
};
/// Looks at `bounds` now and then.
using ClangCompileFunction = void (*)(const ClangJob& job, const CompileBounds& bounds, ClangResult& result);

inline constexpr const char* kClangCompileFunctionName = "kiln_clang_compile";

}  // namespace kiln
