#include "compiler/llvm_copies.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace kiln {
namespace {

/// An instruction that reads or writes a local variable.
struct Access {
  llvm::Instruction* instruction;
  bool writes;
};
using Accesses = llvm::SmallVector<Access, 16>;

/// All accesses of `local`, markers of its lifetime aside; nothing if its address goes elsewhere.
std::optional<Accesses> accesses_of(llvm::AllocaInst& local) {
  Accesses accesses;
  llvm::SmallVector<llvm::Instruction*, 8> pointers{&local};
  while (!pointers.empty()) {
    llvm::Instruction* const pointer = pointers.pop_back_val();
    for (llvm::User* user : pointer->users()) {
      auto* const instruction = llvm::cast<llvm::Instruction>(user);
      if (llvm::isa<llvm::GetElementPtrInst>(instruction)) {
        pointers.push_back(instruction);
      } else if (const auto* fill = llvm::dyn_cast<llvm::MemIntrinsic>(instruction)) {
        if (fill->isVolatile()) return std::nullopt;
        accesses.push_back({instruction, fill->getRawDest() == pointer});
      } else if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction)) {
        if (!load->isSimple()) return std::nullopt;
        accesses.push_back({instruction, false});
      } else if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(instruction)) {
        if (!store->isSimple() || store->getValueOperand() == pointer) return std::nullopt;
        accesses.push_back({instruction, true});
      } else if (!instruction->isLifetimeStartOrEnd()) {
        return std::nullopt;
      }
    }
  }
  return accesses;
}

/// The local that `copy` fills whole, if it is one.
bool fills(const llvm::MemCpyInst& copy, const llvm::AllocaInst& local, const llvm::DataLayout& layout) {
  const auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(copy.getLength());
  return copy.getRawDest() == &local && bytes != nullptr &&
         local.getAllocationSize(layout) == bytes->getValue().getZExtValue();
}

/// The one copy that fills `local` whole, if nothing else writes it and its address goes nowhere; otherwise null.
llvm::MemCpyInst* only_write(llvm::AllocaInst& local, const llvm::DataLayout& layout) {
  const std::optional<Accesses> accesses = accesses_of(local);
  if (!accesses) return nullptr;
  llvm::Instruction* write = nullptr;
  for (const Access& access : *accesses) {
    if (!access.writes) continue;
    if (write != nullptr) return nullptr;
    write = access.instruction;
  }
  auto* const copy = llvm::dyn_cast_or_null<llvm::MemCpyInst>(write);
  return copy != nullptr && fills(*copy, local, layout) ? copy : nullptr;
}

/// Replaces all uses of `local` by `other`, which then is there as long as either was.
void replace_local(llvm::AllocaInst& local, llvm::AllocaInst& other) {
  for (llvm::AllocaInst* one : {&local, &other})
    for (llvm::User* user : llvm::make_early_inc_range(one->users()))
      if (auto* marker = llvm::cast<llvm::Instruction>(user); marker->isLifetimeStartOrEnd()) marker->eraseFromParent();
  other.setAlignment(std::max(other.getAlign(), local.getAlign()));
  if (local.comesBefore(&other)) other.moveBefore(&local);
  local.replaceAllUsesWith(&other);
  local.eraseFromParent();
}

/// Whether `local` was a copy that could be, and has been, replaced by its original.
bool share(llvm::AllocaInst& local) {
  const llvm::DataLayout& layout = local.getDataLayout();
  llvm::MemCpyInst* const copy = only_write(local, layout);
  if (copy == nullptr) return false;
  auto* const original = llvm::dyn_cast<llvm::AllocaInst>(copy->getRawSource());
  if (original == nullptr || original->getAllocationSize(layout) != local.getAllocationSize(layout)) return false;
  // Filled once, at the start, the original holds at every read what it held when it was copied.
  const llvm::MemCpyInst* const filling = only_write(*original, layout);
  const llvm::BasicBlock* const start = local.getParent();
  if (filling == nullptr || filling->getParent() != start) return false;
  if (copy->getParent() == start && !filling->comesBefore(copy)) return false;
  copy->eraseFromParent();
  replace_local(local, *original);
  return true;
}

/// Whether execution can go from the end of `from` to `to` without passing `barrier`.
bool can_reach(const llvm::Instruction& from, const llvm::Instruction& to, const llvm::Instruction& barrier) {
  llvm::SmallPtrSet<const llvm::BasicBlock*, 32> seen;
  llvm::SmallVector<const llvm::BasicBlock*, 32> blocks;
  const llvm::BasicBlock* block = from.getParent();
  const llvm::Instruction* start = &from;  // null: all of the block
  while (true) {
    const auto ahead = [&](const llvm::Instruction& one) {
      return one.getParent() == block && (start == nullptr || start->comesBefore(&one));
    };
    if (ahead(to) && (!ahead(barrier) || to.comesBefore(&barrier))) return true;
    if (!ahead(barrier))
      for (const llvm::BasicBlock* next : llvm::successors(block))
        if (seen.insert(next).second) blocks.push_back(next);
    if (blocks.empty()) return false;
    block = blocks.pop_back_val();
    start = nullptr;
  }
}

/// The two take turns; between `copy` and `back` nobody touches the original, and the local is touched nowhere else.
bool is_changed_in_place(const llvm::Instruction& copy, const llvm::Instruction& back, const Accesses& of_local,
                         const Accesses& of_original) {
  // A tile that is saved once and restored in each turn of a loop, or tried anew from one that stays.
  if (can_reach(copy, copy, back) || can_reach(back, back, copy)) return false;
  const llvm::Instruction& begin = copy.getFunction()->getEntryBlock().front();
  for (const Access& access : of_local)
    if (const llvm::Instruction& one = *access.instruction;
        &one != &copy && &one != &back && (can_reach(begin, one, copy) || can_reach(back, one, copy)))
      return false;
  for (const Access& access : of_original)
    if (const llvm::Instruction& one = *access.instruction;
        &one != &copy && &one != &back && can_reach(copy, one, back))
      return false;
  return true;
}

/// Nothing writes the local but `copy`, and nothing that writes the original comes between it and those who read.
bool is_only_read(const llvm::Instruction& copy, const Accesses& of_local, const Accesses& of_original) {
  for (const Access& access : of_local)
    if (access.writes && access.instruction != &copy) return false;
  for (const Access& write : of_original) {
    if (!write.writes || !can_reach(copy, *write.instruction, copy)) continue;
    for (const Access& read : of_local)
      if (read.instruction != &copy && can_reach(*write.instruction, *read.instruction, copy)) return false;
  }
  return true;
}

bool is_elidable(const llvm::MemCpyInst& copy, llvm::ArrayRef<llvm::MemCpyInst*> copies) {
  auto* const local = llvm::dyn_cast<llvm::AllocaInst>(copy.getRawDest());
  auto* const original = llvm::dyn_cast<llvm::AllocaInst>(copy.getRawSource());
  if (local == nullptr || original == nullptr || local == original) return false;
  const llvm::DataLayout& layout = local->getDataLayout();
  if (!fills(copy, *local, layout) || original->getAllocationSize(layout) != local->getAllocationSize(layout))
    return false;
  const std::optional<Accesses> of_local = accesses_of(*local), of_original = accesses_of(*original);
  if (!of_local || !of_original) return false;
  const auto is_back = [&](const llvm::MemCpyInst* other) {
    return other->getRawSource() == local && fills(*other, *original, layout);
  };
  const auto back = std::find_if(copies.begin(), copies.end(), is_back);
  return back != copies.end() ? is_changed_in_place(copy, **back, *of_local, *of_original)
                              : is_only_read(copy, *of_local, *of_original);
}

}  // namespace

bool share_parameters(llvm::Function& entry) {
  std::vector<llvm::AllocaInst*> locals;
  for (llvm::Instruction& instruction : entry.getEntryBlock())
    if (auto* local = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) locals.push_back(local);
  bool changed = false;
  // A copy of a copy can only go once the first has gone.
  for (auto shared = locals.begin(); shared != locals.end();) {
    shared = std::find_if(locals.begin(), locals.end(), [](llvm::AllocaInst* local) { return share(*local); });
    if (shared == locals.end()) break;
    locals.erase(shared);
    changed = true;
    shared = locals.begin();
  }
  return changed;
}

bool elide_copies(llvm::Function& entry) {
  llvm::SmallVector<llvm::MemCpyInst*, 16> copies;
  for (llvm::Instruction& instruction : llvm::instructions(entry))
    if (auto* copy = llvm::dyn_cast<llvm::MemCpyInst>(&instruction)) copies.push_back(copy);
  bool changed = false;
  while (!copies.empty()) {
    const auto merged =
        std::find_if(copies.begin(), copies.end(), [&](llvm::MemCpyInst* copy) { return is_elidable(*copy, copies); });
    if (merged == copies.end()) break;
    auto* const local = llvm::cast<llvm::AllocaInst>((*merged)->getRawDest());
    auto* const original = llvm::cast<llvm::AllocaInst>((*merged)->getRawSource());
    replace_local(*local, *original);
    // What was copied from one to the other, either way, is now copied onto itself.
    llvm::erase_if(copies, [](llvm::MemCpyInst* copy) {
      if (copy->getRawDest() != copy->getRawSource()) return false;
      copy->eraseFromParent();
      return true;
    });
    changed = true;
  }
  return changed;
}

}  // namespace kiln
