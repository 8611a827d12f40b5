#pragma once

namespace llvm {
class Function;
}

namespace kiln {

// What LLVM's own passes leave of copies of structs and tiles, which is what does not fit registers. Both want a
// function after SROA: before, the addresses of locals are kept in variables. They return whether they changed
// anything.

/// A kernel takes its structs by value, so each program of the entry's loop has a copy of its own: half a kilobyte for
/// a strided kernel's iteration, which took longer than a tile's work. A copy that the kernel does not change becomes
/// the entry's own, from which whatever does not depend on the program is then read once. LLVM's passes see this only
/// for constant memory.
bool share_parameters(llvm::Function& entry);

/// `acc = dot(a, b, acc)` copies a tile, changes the copy, and copies it back; `store(p, cast<T>(x))` copies a tile
/// that has the type already, and reads the copy. Where nothing looks at the original in between, or neither changes,
/// the copy becomes the original. A tile of a matrix product is as large as the caches near to the core, so its copies
/// are what LLVM's own passes, which work on what fits registers, leave to do.
bool elide_copies(llvm::Function& entry);

}  // namespace kiln
