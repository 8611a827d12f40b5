#include "compiler/llvm_loops.hpp"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Transforms/Utils/LoopUtils.h>

namespace kiln {
namespace {

constexpr const char* kHeld = "kiln.loop.held";
constexpr const char* kNotUnrolled = "llvm.loop.unroll.disable";

bool calls_vector_function(const llvm::Loop& loop, const llvm::TargetLibraryInfo& library) {
  for (const llvm::BasicBlock* block : loop.blocks())
    for (const llvm::Instruction& instruction : *block)
      if (const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction); call != nullptr)
        if (const llvm::Function* callee = call->getCalledFunction();
            callee != nullptr && library.isFunctionVectorizable(callee->getName()))
          return true;
  return false;
}

}  // namespace

void hold_loops(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  const auto& library = analyses.getResult<llvm::TargetLibraryAnalysis>(function);
  for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder())
    if (const bool has_conditions = loop->getNumBlocks() > 1;
        loop->isInnermost() && llvm::hasUnrollTransformation(loop) == llvm::TM_Unspecified &&
        (has_conditions || calls_vector_function(*loop, library))) {
      llvm::addStringMetadataToLoop(loop, kHeld, 1);
      llvm::addStringMetadataToLoop(loop, kNotUnrolled, 1);
    }
}

void release_loops(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder())
    if (llvm::findStringMetadataForLoop(loop, kHeld))
      loop->setLoopID(
          llvm::makePostTransformationMetadata(function.getContext(), loop->getLoopID(), {kHeld, kNotUnrolled}, {}));
}

}  // namespace kiln
