#pragma once

#include <llvm/IR/PassManager.h>

namespace kiln {

// Loops over a tile that call a function of which libmvec has a vector form are kept until they have been vectorised.
// A loop over few elements is unrolled before that otherwise, and its calls become vectors again only where stores one
// behind the other ask for them, which a masked tile's are not: atan2 of f64 rows of 6 took 52 ns a row, and takes 24.

/// Before anything unrolls loops.
struct HoldCalls : llvm::PassInfoMixin<HoldCalls> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};
/// Once loops have been vectorised.
struct ReleaseCalls : llvm::PassInfoMixin<ReleaseCalls> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace kiln
