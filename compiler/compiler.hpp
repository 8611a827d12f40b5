#pragma once

#include <string>
#include <string_view>

#include "compiler/compile_request.hpp"
#include "core/artifact.hpp"

namespace kiln {

/// What `kiln inspect --emit` can show of a compile.
enum class EmitKind { ptx, llvm_ir, assembly };

/// Kernel source + template arguments + target -> artifact. Implementations are safe to call from many threads.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Name, version and fixed options: part of every artifact's key. "nvrtc 13.0", "clang 19.1.7".
  virtual std::string_view identity() const noexcept = 0;
  /// CompileError with op, configuration and the log; its source lines are those of the kernel file.
  virtual Artifact compile(const CompileRequest& request) = 0;
  /// Text of an intermediate form. UsageError(value) for a form this compiler does not have.
  virtual std::string emit(const CompileRequest& request, EmitKind kind) = 0;
};

}  // namespace kiln
