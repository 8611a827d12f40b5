#pragma once

#include "compiler/tl/cuda/in_flight.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/shared_tile.hpp"
#include "compiler/tl/cuda/sm90/warpgroup.hpp"
#include "compiler/tl/cuda/sm90/wgmma_half.hpp"
#include "compiler/tl/cuda/sm90/wgmma_k_major.hpp"
#include "compiler/tl/cuda/turned_tile.hpp"

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
  for (const int possible : {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256})
    if (possible <= columns) taken = possible;
  return taken;
}

/// Columns of the widest instruction of which some make `columns`, 128 at most.
constexpr int wgmma_share(int columns) {
  int share = 8;
  for (const int possible : {16, 32, 64, 96, 128})
    if (columns % possible == 0) share = possible;
  return share;
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
  static_assert(Operand::kMajor == sm90::Major::k || kColumns % Operand::kPanelElements == 0 ||
                    Operand::kPanelElements % kColumns == 0,
                "dot: warpgroups share columns of b, which is contiguous along them, by whole panels of 64: take a "
                "multiple of 64 for each, more rows, or fewer warps");
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

/// Whether an operand in shared memory is turned first: wgmma takes elements of other than two bytes along K alone.
template <typename Shared, bool kOfB>
inline constexpr bool kIsTurned = sizeof(typename Shared::value_type) != 2 && Shared::kRowsAreLines == kOfB;

/// How a product of operands in shared memory goes through K, in steps of one instruction each. Operands that are
/// turned come in two parts by turns, each to a place of its own: one is turned while the other's products go on.
/// kMaxNumImpreciseAcc: see dot.
template <typename A, typename B, int kMaxNumImpreciseAcc>
struct WgmmaSteps {
  using T = typename A::value_type;
  static constexpr int kElements = 32 / static_cast<int>(sizeof(T));  ///< of K in a step
  static constexpr int kK = A::shape::kColumns, kSteps = kK / kElements;
  static_assert(kK % kElements == 0, "dot: K is a multiple of 32 for types of one byte");
  static constexpr bool kTurnsA = kIsTurned<A, false>, kTurnsB = kIsTurned<B, true>;
  static constexpr int kTurnedLines = (kTurnsA ? A::shape::kRows : 0) + (kTurnsB ? B::shape::kColumns : 0);
  /// Shared memory that turned operands take: half of what a kernel has beside its pipelines.
  static constexpr int kMostTurnedBytes = 24 * 1024;
  static constexpr int place_steps() {
    int steps = smaller(kSteps, 4);
    while (steps > 1 && steps * 32 * kTurnedLines > kMostTurnedBytes) steps /= 2;
    return steps;
  }
  static constexpr int kPlaceSteps = place_steps();
  static constexpr int kPartSteps = kTurnedLines == 0 ? kSteps : larger(1, kPlaceSteps / 2);
  /// Sums of fp8 products that go to others by ordinary additions, behind each group.
  static constexpr bool kPromotes = sizeof(T) == 1 && Floating<T> && kMaxNumImpreciseAcc <= kK;
  static_assert(!kPromotes || (kMaxNumImpreciseAcc >= kElements && is_power_of_two(kMaxNumImpreciseAcc)),
                "dot: kMaxNumImpreciseAcc is a power of two of 32 or more");
  static constexpr int group_steps() {
    int steps = kPromotes ? smaller(kPartSteps, kMaxNumImpreciseAcc / kElements) : kPartSteps;
    while (kPartSteps % steps != 0) --steps;
    return steps;
  }
  static constexpr int kGroupSteps = group_steps();
};

/// A place for turned operands, the same for all dots of such operands. Other forms have others: what is there of a dot
/// before is over part by part.
template <typename Turned>
KILN_DEVICE Turned turned_place() {
  __shared__ alignas(1024) unsigned char place[Turned::kBytes];
  return {shared_window_address(place)};
}

/// An operand in shared memory as wgmma takes it: as it lies, or turned.
template <typename Shared, bool kOfB, typename Steps>
struct WgmmaSource {
  static constexpr int kPlaceSteps = Steps::kSteps;
  const Shared& tile;
  KILN_DEVICE explicit WgmmaSource(const Shared& operand) : tile(operand) {}
  KILN_DEVICE void turn(int) const {}
  KILN_DEVICE void read() const {}
};
template <typename Shared, bool kOfB, typename Steps>
  requires(kIsTurned<Shared, kOfB>)
struct WgmmaSource<Shared, kOfB, Steps> {
  static constexpr int kPlaceSteps = Steps::kPlaceSteps;
  using Turn = TileTurn<Shared, kOfB, kPlaceSteps * Steps::kElements>;
  const Shared& operand;
  typename Turn::To tile;
  Turn turned;
  KILN_DEVICE explicit WgmmaSource(const Shared& operand)
      : operand(operand), tile(turned_place<typename Turn::To>()), turned(operand, tile) {}
  /// The part of K that begins with step `first`.
  KILN_DEVICE void turn(int first) const {
    constexpr int kElements = Steps::kElements;
    turned.template turn<Steps::kPartSteps * kElements>(first * kElements, first % kPlaceSteps * kElements);
  }
  KILN_DEVICE void read() const {
    if constexpr (kIsOfPipeline<Shared>) operand.step->values_read();
  }
};

/// sums (+)= the products of kSteps steps of operands in shared memory, from step first_a of a's tile and first_b of
/// b's on, begun as one group.
template <int kSteps, typename A, typename B, Number Sum, typename S, typename L>
KILN_DEVICE void begin_group(const A& a, const B& b, int first_a, int first_b, Tile<Sum, S, InFlight<L>>& sums,
                             bool accumulate) {
  using T = typename A::value_type;
  using Rows = WgmmaOperand<A, false>;
  constexpr int kElements = 32 / static_cast<int>(sizeof(T));
  const WgmmaColumns<B, L> columns(b);
  const Rows rows(a, sm90::warp_uniform(L::Grid::row()));
  sm90::products_begin();
  KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
    KILN_UNROLL for (int block = 0; block < L::kRowBlocks; ++block) multiply_block<T, WgmmaColumns<B, L>, Rows::kMajor>(
        sums.registers, block, (first_b + step) * kElements, rows.at(64 * block, (first_a + step) * kElements), columns,
        accumulate || step > 0);
  }
  sm90::products_commit();
}

/// The same, summed apart and added, up to 128 columns of 64 rows at a time: few registers, and while a warpgroup adds
/// others' products go on.
template <int kSteps, typename A, typename B, Number Sum, typename S, typename L>
KILN_DEVICE void add_group(const A& a, const B& b, int first_a, int first_b, Tile<Sum, S, InFlight<L>>& sums,
                           bool accumulate) {
  using T = typename A::value_type;
  using Rows = WgmmaOperand<A, false>;
  constexpr int kElements = 32 / static_cast<int>(sizeof(T)), kColumns = wgmma_share(L::Grid::kColumns);
  const WgmmaColumns<B, L> columns(b);
  const Rows rows(a, sm90::warp_uniform(L::Grid::row()));
  Sum part[kColumns / 2];
  KILN_UNROLL for (int block = 0; block < L::kRowBlocks; ++block) {
    KILN_UNROLL for (int first = 0; first < L::Grid::kColumns; first += kColumns) {
      sm90::products_begin();
      KILN_UNROLL for (int step = 0; step < kSteps; ++step)
          sm90::product<T, typename B::value_type, sm90::Major::k, sm90::Major::k>(
              part, rows.at(64 * block, (first_a + step) * kElements),
              columns.operand.at(first, (first_b + step) * kElements), step > 0);
      sm90::products_commit();
      sm90::products_wait<0>();
      sm90::keep_registers(part);
      Sum* const to = &sums.registers[block * L::kBlockRegisters + first / 2];
      KILN_UNROLL for (int i = 0; i < kColumns / 2; ++i) to[i] = accumulate ? to[i] + part[i] : part[i];
    }
  }
}

/// sums (+)= a @ b of operands in shared memory, begun and not waited for, but for sums that are added.
template <int kMaxNumImpreciseAcc, typename A, typename B, Number Sum, typename S, typename L>
KILN_DEVICE void begin_products(const A& a, const B& b, Tile<Sum, S, InFlight<L>>& sums, bool accumulate) {
  using Steps = WgmmaSteps<A, B, kMaxNumImpreciseAcc>;
  const WgmmaSource<A, false, Steps> rows(a);
  const WgmmaSource<B, true, Steps> columns(b);
  // For the host (BoxForm): boxes of float that wgmma reads are rounded on their way.
  if constexpr (is_same<typename A::value_type, float>) asm volatile("// kiln.tf32_tiles");
  KILN_UNROLL for (int first = 0; first < Steps::kSteps; first += Steps::kGroupSteps) {
    if constexpr (Steps::kTurnedLines != 0) {
      if (first % Steps::kPartSteps == 0) {
        sm90::products_wait<Steps::kPlaceSteps / Steps::kPartSteps - 1>();  // those of what was in the place are over
        sync_threads();
        rows.turn(first);
        columns.turn(first);
        sm90::writes_ready();
        sync_threads();
      }
    }
    const int first_a = first % decltype(rows)::kPlaceSteps, first_b = first % decltype(columns)::kPlaceSteps;
    if constexpr (Steps::kPromotes)
      add_group<Steps::kGroupSteps>(rows.tile, columns.tile, first_a, first_b, sums, accumulate || first > 0);
    else
      begin_group<Steps::kGroupSteps>(rows.tile, columns.tile, first_a, first_b, sums, accumulate || first > 0);
  }
  rows.read();
  columns.read();
  sums.is_pending = sums.is_begun = true;
  if constexpr (kIsOfPipeline<B>) b.step->products_begun();
}

/// The same with a in registers.
///
/// ptxas 13.0 gives the registers of an operand that a loop does not change to another product's operand (seen where
/// both had as many): one that may be used again is copied, in a way that ptxas does not see through.
template <bool kIsFresh, typename A, typename B, Number Sum, typename S, typename L>
KILN_DEVICE void begin_products_of_fragments(const A& a, const B& b, Tile<Sum, S, InFlight<L>>& sums, bool accumulate) {
  using T = typename A::value_type;
  constexpr int kStep = 32 / static_cast<int>(sizeof(T));
  constexpr int kSteps = A::shape::kColumns / kStep;
  const WgmmaColumns<B, L> columns(b);
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
        multiply_block<T, WgmmaColumns<B, L>, sm90::Major::k>(sums.registers, block, step * kStep,
                                                              fragments[block][step], columns, accumulate || step > 0);
  }
  sm90::products_commit();
  sums.is_pending = sums.is_begun = true;
  if constexpr (kIsOfPipeline<B>) b.step->products_begun();
}

}  // namespace kiln::tl
