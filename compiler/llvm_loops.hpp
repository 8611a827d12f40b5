#pragma once

namespace llvm {
class Function;
template <typename IRUnitT, typename... ExtraArgTs>
class AnalysisManager;
using FunctionAnalysisManager = AnalysisManager<Function>;
}  // namespace llvm

namespace kiln {

// A loop over few elements is unrolled before loops are vectorised. Where its elements have conditions, as a masked
// tile's have, or call a function of which libmvec has a vector form, it does not come together again: each element has
// a branch, and each call is one of a single number. Such loops are kept until they have been vectorised. Rows of 9
// f32 plus a row took 20 ns each with AVX-512, and take 7; atan2 of f64 rows of 6 took 52, and takes 12.

/// Before anything unrolls loops. A loop that says itself whether to be unrolled is left to what it says.
void hold_loops(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
/// Once loops have been vectorised: what is left of them is unrolled like any other.
void release_loops(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);

}  // namespace kiln
