#pragma once

#include "compiler/tl/cuda/in_flight.hpp"
#include "compiler/tl/cuda/shared_tile.hpp"
#include "compiler/tl/cuda/sm90/warpgroup.hpp"
#include "compiler/tl/cuda/sm90/wgmma_half.hpp"

namespace kiln::tl {

/// An operand in shared memory as wgmma's descriptors name it. kOfB: its columns are what a's rows are.
template <typename Shared, bool kOfB>
struct WgmmaOperand {
  using T = typename Shared::value_type;
  using Places = typename Shared::Places;
  static constexpr int kSize = static_cast<int>(sizeof(T));
  static constexpr sm90::Major kMajor = Shared::kRowsAreLines != kOfB ? sm90::Major::k : sm90::Major::mn;
  static constexpr int kPanelElements = Places::kPanelLineBytes / kSize;

  /// The descriptor's half that holds the address; the other one is the same for all.
  uint32_t low;

  /// Of the part that starts with row `first` (column, of b).
  KILN_DEVICE WgmmaOperand(const Shared& tile, int first)
      : low(static_cast<uint32_t>(sm90::operand_descriptor<Places::kPanelLineBytes>(
            tile.address + static_cast<uint32_t>(outer_bytes(first)), Places::kPanelBytes))) {}

  static constexpr int outer_bytes(int outer) {
    return kMajor == sm90::Major::k ? outer * Places::kPanelLineBytes
                                    : outer / kPanelElements * Places::kPanelBytes + outer % kPanelElements * kSize;
  }
  static constexpr int inner_bytes(int k) {
    return kMajor == sm90::Major::k ? k / kPanelElements * Places::kPanelBytes + k % kPanelElements * kSize
                                    : k * Places::kPanelLineBytes;
  }
  /// Of the instruction that takes K from k on, and rows or columns from `outer` on.
  KILN_DEVICE uint64_t at(int outer, int k) const {
    constexpr uint64_t kRest = sm90::operand_descriptor<Places::kPanelLineBytes>(0, 0);
    return kRest | (low + static_cast<uint32_t>((outer_bytes(outer) + inner_bytes(k)) / 16));
  }
};

/// Columns of the widest instruction that takes no more than `columns`.
constexpr int wgmma_columns(int columns) {
  int taken = 8;
  for (const int possible : {16, 32, 64, 96, 128, 192, 256})
    if (possible <= columns) taken = possible;
  return taken;
}

/// Products of one step of K and one block of 64 rows with all columns from kFirst on. `a` describes an operand in
/// shared memory, or is four registers of one.
template <typename A, typename B, sm90::Major kMajorA, int kFirst = 0, int kRegisters, typename OperandA, typename Sum>
KILN_DEVICE void multiply_block(Sum (&sums)[kRegisters], int block, int k, const OperandA& a, const B& b,
                                bool accumulate) {
  constexpr int kColumns = B::kColumns;
  constexpr int kTaken = wgmma_columns(kColumns - kFirst);
  auto& taken = reinterpret_cast<Sum(&)[kTaken / 2]>(sums[block * (kColumns / 2) + kFirst / 2]);
  sm90::product<A, typename B::T, kMajorA, B::Operand::kMajor>(taken, a, b.operand.at(kFirst, k), accumulate);
  if constexpr (kFirst + kTaken < kColumns)
    multiply_block<A, B, kMajorA, kFirst + kTaken>(sums, block, k, a, b, accumulate);
}

/// b's columns that the calling warpgroup takes.
template <typename Shared, typename L>
struct WgmmaColumns {
  using T = typename Shared::value_type;
  using Operand = WgmmaOperand<Shared, true>;
  static constexpr int kColumns = L::Grid::kColumns;
  Operand operand;
  KILN_DEVICE explicit WgmmaColumns(const Shared& b) : operand(b, L::Grid::column()) {}
};

/// Whether `A` is a value whose registers are those that wgmma takes its first operand from: what was computed from
/// another product's sums.
template <typename A, typename L>
inline constexpr bool kIsFragment = false;
template <Number T, typename S, typename L>
inline constexpr bool kIsFragment<Tile<T, S, WgmmaLayout<S>>, L> =
    sizeof(T) == 2 && WgmmaLayout<S>::kRowsInLanes && L::kRowsInLanes;

/// Zero, of which no compiler knows it.
KILN_DEVICE uint32_t opaque_zero() {
  uint32_t multiprocessor;
  asm("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  return multiprocessor >> 31;
}

/// sums (+)= a @ b, begun and not waited for. a and b are in shared memory, or a is in registers.
///
/// ptxas 13.0 gives the registers of an operand that a loop does not change to another product's operand (seen where
/// both had as many): one that may be used again is copied, in a way that ptxas does not see through.
template <bool kIsFresh, typename A, typename B, Number Sum, typename S, typename L>
KILN_DEVICE void begin_products(const A& a, const B& b, Tile<Sum, S, InFlight<L>>& sums, bool accumulate) {
  using T = typename A::value_type;
  constexpr int kStep = 32 / static_cast<int>(sizeof(T));
  constexpr int kSteps = A::shape::kColumns / kStep;
  const WgmmaColumns<B, L> columns(b);
  if constexpr (is_shared_tile<A>) {
    using Rows = WgmmaOperand<A, false>;
    const Rows rows(a, sm90::warp_uniform(L::Grid::row()));
    sm90::products_begin();
    KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
      KILN_UNROLL for (int block = 0; block < L::kRowBlocks; ++block)
          multiply_block<T, WgmmaColumns<B, L>, Rows::kMajor>(
              sums.registers, block, step * kStep, rows.at(64 * block, step * kStep), columns, accumulate || step > 0);
    }
  } else {
    uint32_t fragments[L::kRowBlocks][kSteps][4];
    memcpy(fragments, a.registers, sizeof fragments);
    if constexpr (!kIsFresh) {
      const uint32_t zero = opaque_zero();
      KILN_UNROLL for (int block = 0; block < L::kRowBlocks; ++block) {
        KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
          KILN_UNROLL for (int i = 0; i < 4;
                           ++i) asm volatile("or.b32 %0, %0, %1;" : "+r"(fragments[block][step][i]) : "r"(zero));
        }
      }
    }
    sm90::products_begin();
    KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
      KILN_UNROLL for (int block = 0; block < L::kRowBlocks; ++block)
          multiply_block<T, WgmmaColumns<B, L>, sm90::Major::k>(
              sums.registers, block, step * kStep, fragments[block][step], columns, accumulate || step > 0);
    }
  }
  sm90::products_commit();
  sums.is_pending = sums.is_begun = true;
  if constexpr (kIsOfPipeline<B>) b.step->products_begun();
}

}  // namespace kiln::tl
