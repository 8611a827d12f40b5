#include "compiler/llvm_masks.hpp"

#include <utility>

#include <llvm/ADT/STLExtras.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace kiln {
namespace {

constexpr unsigned kWide = 64, kNarrow = 32;

/// Bits of the elements that `user` takes a mask for.
unsigned element_bits(const llvm::User& user) {
  const llvm::Type* type = user.getType();
  if (const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&user);
      call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::masked_store)
    type = call->getArgOperand(0)->getType();
  return type->getScalarSizeInBits();
}

/// A vector of constants in kNarrow bits; null where one does not fit.
llvm::Constant* narrowed(const llvm::Value* value) {
  const auto* constants = llvm::dyn_cast<llvm::ConstantDataVector>(value);
  if (constants == nullptr) return nullptr;
  llvm::SmallVector<llvm::Constant*, 16> narrow;
  llvm::Type* const type = llvm::Type::getIntNTy(value->getContext(), kNarrow);
  for (unsigned i = 0; i < constants->getNumElements(); ++i) {
    const llvm::APInt element = constants->getElementAsAPInt(i);
    if (!element.isSignedIntN(kNarrow)) return nullptr;
    narrow.push_back(llvm::ConstantInt::get(type, element.trunc(kNarrow)));
  }
  return llvm::ConstantVector::get(narrow);
}

/// Whether it was a signed comparison of one number with constants that fits, and has been replaced.
bool narrow(llvm::ICmpInst& compare) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(compare.getOperand(0)->getType());
  if (type == nullptr || type->getScalarSizeInBits() != kWide || compare.isUnsigned()) return false;
  const auto is_wide = [](const llvm::User* user) { return element_bits(*user) > kNarrow; };
  if (llvm::any_of(compare.users(), is_wide)) return false;
  for (const bool is_left : {true, false}) {
    llvm::Value* const room = llvm::getSplatValue(compare.getOperand(is_left ? 0 : 1));
    llvm::Constant* const columns = narrowed(compare.getOperand(is_left ? 1 : 0));
    if (room == nullptr || columns == nullptr ||
        llvm::ComputeNumSignBits(room, compare.getDataLayout()) <= kWide - kNarrow)
      continue;
    llvm::IRBuilder<> builder(&compare);
    llvm::Value* const splat =
        builder.CreateVectorSplat(type->getNumElements(), builder.CreateTrunc(room, builder.getIntNTy(kNarrow)));
    std::pair<llvm::Value*, llvm::Value*> sides(splat, columns);
    if (!is_left) std::swap(sides.first, sides.second);
    compare.replaceAllUsesWith(builder.CreateICmp(compare.getPredicate(), sides.first, sides.second));
    compare.eraseFromParent();
    return true;
  }
  return false;
}

}  // namespace

bool narrow_masks(llvm::Function& entry) {
  bool changed = false;
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(entry)))
    if (auto* compare = llvm::dyn_cast<llvm::ICmpInst>(&instruction)) changed = narrow(*compare) || changed;
  return changed;
}

}  // namespace kiln
