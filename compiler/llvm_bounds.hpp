#pragma once

#include <string>

#include "compiler/compile_bounds.hpp"

namespace clang {
class Sema;
}

namespace kiln {

/// Looks at the bounds of a compile where Clang and LLVM allow it: whenever a template is instantiated, and before each
/// pass that may be left out. A compile that is over hurries through what is left, whose result is of no use.
class BoundsWatch {
 public:
  explicit BoundsWatch(const CompileBounds& bounds) : bounds_(bounds) {}

  /// Before the parse begins. `sema` must not outlive this.
  void attach(clang::Sema& sema);
  bool is_over() const { return !reason_.empty() || bounds_.is_abandoned.load(std::memory_order_relaxed); }
  /// Why it is over, for the log.
  std::string reason() const { return reason_.empty() ? "error: nobody waits for this compile any more\n" : reason_; }

 private:
  class Instantiations;

  const CompileBounds& bounds_;
  std::string reason_;
};

}  // namespace kiln
