#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "compiler/clang_library.hpp"
#include "compiler/llvm_bounds.hpp"

namespace llvm {
class Module;
class TargetLibraryInfoImpl;
class TargetMachine;
class raw_ostream;
}  // namespace llvm

namespace kiln {

/// Adds the vector forms of math functions that this machine's libmvec has for the given features (their error is at
/// most 4 ulp, libm's 1); LLVM's own table for libmvec stops at glibc 2.22's. `library_info` points into `names`.
void add_vector_functions(std::string_view features, std::deque<std::string>& names,
                          llvm::TargetLibraryInfoImpl& library_info);

/// Puts the job's CPU on the module's functions, inlines all of them into the job's entry, optimises that, and checks
/// that what is still called exists. False with the reason in `log`.
bool optimize(const ClangJob& job, llvm::Module& module, llvm::TargetMachine& machine,
              const llvm::TargetLibraryInfoImpl& library_info, const BoundsWatch& watch, llvm::raw_ostream& log);

}  // namespace kiln
