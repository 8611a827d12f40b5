#include "compiler/llvm_bounds.hpp"

#include <memory>

#include <clang/AST/ASTContext.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Sema/Sema.h>
#include <clang/Sema/TemplateInstCallback.h>
#include <llvm/Support/FormatVariadic.h>

namespace kiln {

class BoundsWatch::Instantiations final : public clang::TemplateInstantiationCallback {
 public:
  Instantiations(BoundsWatch& watch, clang::Sema& sema) : watch_(watch), sema_(sema) {}

  void initialize(const clang::Sema& /*sema*/) override {}
  void finalize(const clang::Sema& /*sema*/) override {}
  void atTemplateEnd(const clang::Sema& /*sema*/, const clang::Sema::CodeSynthesisContext& /*instance*/) override {}

  void atTemplateBegin(const clang::Sema& /*sema*/, const clang::Sema::CodeSynthesisContext& instance) override {
    if (is_ending_) return;
    if (++count_ % kMemoryInterval == 0) look_at_memory(instance.PointOfInstantiation);
    if (!watch_.is_over()) return;
    is_ending_ = true;
    // After a fatal error Sema instantiates nothing more. It must be one of Clang's own; its text gives way to the
    // watch's reason.
    sema_.getDiagnostics().Report(instance.PointOfInstantiation, clang::diag::fatal_too_many_errors);
  }

 private:
  /// Instantiations between two looks, each of which adds up Clang's slabs.
  static constexpr unsigned kMemoryInterval = 64;

  void look_at_memory(clang::SourceLocation place) {
    const clang::ASTContext& context = sema_.getASTContext();
    const std::size_t bytes = context.getASTAllocatedMemory() + context.getSideTableAllocatedMemory();
    if (bytes <= static_cast<std::size_t>(watch_.bounds_.memory_bytes)) return;
    watch_.reason_ = llvm::formatv(
        "{0}: error: by here Clang's memory has grown to {1} bytes, and {2} are all that one compile may take; "
        "templates "
        "that instantiate ever more of themselves are the usual reason. KILN_COMPILE_MEMORY allows more\n",
        place.printToString(sema_.getSourceManager()), bytes, watch_.bounds_.memory_bytes);
  }

  BoundsWatch& watch_;
  clang::Sema& sema_;
  unsigned count_ = 0;
  bool is_ending_ = false;
};

void BoundsWatch::attach(clang::Sema& sema) {
  sema.TemplateInstCallbacks.push_back(std::make_unique<Instantiations>(*this, sema));
}

}  // namespace kiln
