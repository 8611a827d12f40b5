#pragma once

namespace clang {
class CodeGenerator;
class CompilerInstance;
}  // namespace clang

namespace kiln {

/// Reports, as Clang's own errors, the globals of a translation unit that need code of their own to run before the
/// kernel or after it, of which nothing runs any: dynamic initialisers, destructors, functions marked as constructors.
/// Without them a kernel would read zeros. Thread-local variables too, for which there is no storage. NVRTC refuses the
/// same. Call it once the translation unit is parsed and lowered.
void check_globals(clang::CompilerInstance& instance, clang::CodeGenerator& generator);

}  // namespace kiln
