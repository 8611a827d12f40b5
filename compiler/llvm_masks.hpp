#pragma once

namespace llvm {
class Function;
}

namespace kiln {

/// Masks of a tile's last elements are column < room. LLVM counts columns in 64 bits, since they are places in memory
/// too, and vectorises the comparison as it stands: half the lanes to a register, and instructions that pack what comes
/// out where the elements are narrower. Where both sides fit, it is made in 32 bits here (the masked end of a call of
/// f32 has half its instructions then, with AVX2). Wants a function whose tiles are unrolled; returns whether it
/// changed anything.
bool narrow_masks(llvm::Function& entry);

}  // namespace kiln
