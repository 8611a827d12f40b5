#pragma once

#include "compiler/tl/cuda/dot_fma.hpp"
#include "compiler/tl/cuda/dot_wgmma.hpp"
#include "compiler/tl/cuda/dynamic_shared.hpp"
#include "compiler/tl/cuda/mma.hpp"
#include "compiler/tl/cuda/mma_access.hpp"
#include "compiler/tl/cuda/mma_layout.hpp"
#include "compiler/tl/cuda/operand_values.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/shared_tile.hpp"
#include "compiler/tl/cuda/tile_copy.hpp"

namespace kiln::tl {

/// Whether products are formed by the ordinary arithmetic units: float in full precision.
template <Number T, DotPrecision kPrecision>
inline constexpr bool kUsesFma = is_same<T, float> && kPrecision == DotPrecision::ieee;

template <Number T, typename ShapeT, DotPrecision kPrecision>
inline constexpr bool kUsesWgmma = sizeof(T) <= 4 && !kUsesFma<T, kPrecision> && WarpgroupGrid<ShapeT>::kFits;

template <Number T, typename ShapeT, DotPrecision kPrecision>
using accumulator_layout_t =
    conditional_t<kUsesFma<T, kPrecision>, FmaLayout<ShapeT>,
                  conditional_t<kUsesWgmma<T, ShapeT, kPrecision>, InFlight<WgmmaLayout<ShapeT>>,
                                MmaLayout<ShapeT, static_cast<int>(sizeof(T))>>>;

/// Reads an operand's fragments: kOuter rows (of a; columns, of b), of which the calling warp's part starts at `first`.
template <typename Shared, bool kOfB, int kOuter, int kK>
struct FragmentReader {
  static constexpr bool kAlongK = Shared::kRowsAreLines != kOfB;
  using T = typename Shared::value_type;
  static_assert(!Shared::kHasPadding, "dot: only IEEE products of float read tiles whose loads name their lines");
  static constexpr int kSize = static_cast<int>(sizeof(T));
  using Places = FragmentPlaces<kSize, kOfB, kOuter, kK, kAlongK>;
  using Register = conditional_t<kSize == 8, double, uint32_t>;
  using Mma = MmaPlaces<kSize, kOfB>;

  uint32_t lane_address;

  KILN_DEVICE FragmentReader(const Shared& tile, int first) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    lane_address = tile.address + Shared::Places::offset(Places::lane_chunk(lane) | Places::chunk(first, 0));
    // Ordinary reads of less than a chunk.
    if constexpr (!kAlongK && kSize >= 4) lane_address += lane / 4 % Places::kPerChunk * kSize;
  }

  KILN_DEVICE void read(int fragment, int step, Register (&registers)[4]) const {
    const auto at = [&](int outer, int k) {
      return Shared::moved(lane_address, Places::chunk(16 * fragment + outer, Mma::kStepK * step + k));
    };
    if constexpr (kSize == 8 && kAlongK) {
      KILN_UNROLL for (int q = 0; q < 4; ++q) if (Mma::inner_half(q) == 0)
          load_shared_doubles(at(8 * Mma::half(q), 0), registers[q], registers[kOfB ? q + 1 : q + 2]);
    } else if constexpr (kSize == 8) {
      KILN_UNROLL for (int q = 0; q < 4; ++q) registers[q] =
          load_shared_double(at(8 * Mma::half(q), Mma::inner_half(q)));
    } else if constexpr (!Places::kMatrices) {
      KILN_UNROLL for (int q = 0; q < 4; ++q) registers[q] =
          load_shared_word(at(8 * Mma::half(q), 4 * Mma::inner_half(q)));
    } else if constexpr (kSize == 1 && !kAlongK) {
      uint32_t pairs[4];
      load_matrices<true>(pairs, at(0, 0));
      KILN_UNROLL for (int q = 0; q < 4; ++q) registers[q] =
          __byte_perm(pairs[2 * Mma::inner_half(q)], pairs[2 * Mma::inner_half(q) + 1], Places::bytes_selector(q));
    } else {
      load_matrices<Places::kTurned>(registers, at(0, 0));
    }
  }
};

/// Fragments as the instructions take them: fp8 may become f16, which makes two fragments of f16 of one.
template <typename T>
struct MmaOperand {
  static constexpr bool kWidens = kWidensFp8 && sizeof(T) == 1 && Floating<T>;
  using type = conditional_t<kWidens, float16, T>;
  using Register = conditional_t<sizeof(T) == 8, double, uint32_t>;
  static constexpr int kFragments = kWidens ? 2 : 1;
  using Fragments = Register[kFragments][4];

  template <typename Reader>
  KILN_DEVICE static void read(const Reader& reader, int fragment, int step, Fragments& fragments) {
    if constexpr (kWidens) {
      // Of a lane's four numbers of K the first two go into one fragment and the others into the second.
      uint32_t bytes[4];
      reader.read(fragment, step, bytes);
      KILN_UNROLL for (int q = 0; q < 4; ++q) widen_fp8<T>(bytes[q], fragments[0][q], fragments[1][q]);
    } else {
      reader.read(fragment, step, fragments[0]);
      if constexpr (is_same<T, float>)
        KILN_UNROLL for (int q = 0; q < 4; ++q) fragments[0][q] = round_to_tf32(fragments[0][q]);
    }
  }
};

/// Whether `A` is a value whose registers are the fragments that a product in layout L takes its first operand from:
/// what was computed from another product's sums, of which each warp has whole rows.
template <typename A, typename L>
inline constexpr bool kIsMmaFragment = false;
template <Number T, typename S, int kBytes, typename SumsShape, int kSumsBytes>
inline constexpr bool kIsMmaFragment<Tile<T, S, MmaLayout<S, kBytes>>, MmaLayout<SumsShape, kSumsBytes>> =
    sizeof(T) == 2 && !MmaPlaces<kBytes>::kInterleaved && MmaLayout<S, kBytes>::Warps::kColumnWarps == 1 &&
    is_same<typename MmaLayout<S, kBytes>::Rows, typename MmaLayout<SumsShape, kSumsBytes>::Rows>;

/// Such a value's fragments, read as a FragmentReader reads them.
template <int kFragments, int kSteps>
struct HeldFragments {
  uint32_t held[kFragments][kSteps][4];

  template <ValueTile A>
  KILN_DEVICE HeldFragments(const A& a, int) {
    memcpy(held, a.registers, sizeof held);
  }
  KILN_DEVICE void read(int fragment, int step, uint32_t (&registers)[4]) const {
    KILN_UNROLL for (int q = 0; q < 4; ++q) registers[q] = held[fragment][step][q];
  }
};

template <typename A, typename B, ValueTile Acc>
KILN_DEVICE Acc dot_by_mma(const A& a, const B& b, const Acc& acc) {
  using OperandA = MmaOperand<typename A::value_type>;
  using OperandB = MmaOperand<typename B::value_type>;
  using L = typename Acc::layout;
  constexpr int kK = A::shape::kColumns;
  constexpr int kSteps = kK / MmaPlaces<sizeof(typename A::value_type)>::kStepK;
  using Rows = conditional_t<kIsMmaFragment<A, L>, HeldFragments<L::kRowFragments, kSteps>,
                             FragmentReader<A, false, Acc::shape::kRows, kK>>;
  const Rows rows(a, L::Warps::row());
  const FragmentReader<B, true, Acc::shape::kColumns, kK> columns(b, L::Warps::column());

  // One step's fragments are read while those of the step before are multiplied, but for widened ones, which would take
  // too many registers.
  constexpr int kBuffers = OperandA::kWidens ? 1 : 2;
  typename OperandA::Fragments fragments_a[kBuffers][L::kRowFragments];
  typename OperandB::Fragments fragments_b[kBuffers][L::kColumnFragments];
  const auto read = [&](int step) {
    KILN_UNROLL for (int j = 0; j < L::kColumnFragments; ++j)
        OperandB::read(columns, j, step, fragments_b[step % kBuffers][j]);
    KILN_UNROLL for (int i = 0; i < L::kRowFragments; ++i)
        OperandA::read(rows, i, step, fragments_a[step % kBuffers][i]);
  };
  Acc result = acc;
  if constexpr (kBuffers == 2) read(0);
  KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
    if (step + kBuffers - 1 < kSteps) read(step + kBuffers - 1);
    KILN_UNROLL for (int part = 0; part < OperandA::kFragments; ++part) {
      KILN_UNROLL for (int i = 0; i < L::kRowFragments; ++i) {
        KILN_UNROLL for (int j = 0; j < L::kColumnFragments; ++j) {
          const auto& fragment_a = fragments_a[step % kBuffers][i][part];
          const auto& fragment_b = fragments_b[step % kBuffers][j][part];
          KILN_UNROLL for (int half = 0; half < 2; ++half) mma<typename OperandA::type, typename OperandB::type>(
              &result.registers[((i * L::kColumnFragments + j) * 2 + half) * 4], fragment_a, fragment_b[2 * half],
              fragment_b[2 * half + 1]);
        }
      }
    }
  }
  return result;
}

/// A value to shared memory, for wgmma rounded to what it multiplies.
template <bool kRounds, ValueTile X>
KILN_DEVICE auto share_operand(const X& x, unsigned char* place) {
  if constexpr (kRounds && is_same<typename X::value_type, float>)
    return share_tile(
        map_registers(
            [](float value) { return __builtin_bit_cast(float, round_to_tf32(__builtin_bit_cast(uint32_t, value))); },
            to_values(x)),
        place);
  else
    return share_tile(to_values(x), place);
}
/// b, of which all threads see all, as wgmma takes it.
template <typename B>
KILN_DEVICE auto turned_in_place(const B& b) {
  if constexpr (kIsTurned<B, true>) {
    using Turn = TileTurn<B, true, B::shape::kRows>;
    const typename Turn::To turned{b.address};
    Turn(b, turned).turn_in_place();
    sm90::writes_ready();
    sync_threads();
    return turned;
  } else {
    return b;
  }
}

/// body(a, b) with operands that are values in shared memory, but for a where it stays in registers.
template <bool kForWgmma, bool kMovesA, typename A, typename B, typename Body>
KILN_DEVICE void with_shared_operands(const A& a, const B& b, Body body) {
  constexpr bool kMovesB = !is_shared_tile<B>;
  constexpr int kBytesA =
      kMovesA ? shared_tile_bytes(A::shape::kRows, A::shape::kColumns, sizeof(typename A::value_type)) : 0;
  constexpr int kBytesB =
      kMovesB ? shared_tile_bytes(B::shape::kRows, B::shape::kColumns, sizeof(typename B::value_type)) : 0;
  static_assert(
      kThreadsMayMeet<B>,
      "chained_pipeline: beside warps that copy, a's operand is a dot_operand, or made of another dot's sums");
  static_assert(kBytesA + kBytesB <= 48 * 1024,
                "dot: operands that are values must fit in 48 KiB of shared memory; load them with tl::pipeline");
  __shared__ alignas(1024) unsigned char shared[kBytesA + kBytesB];
  sync_threads();  // an earlier dot's operands may still be read
  if constexpr (!kMovesB) {
    const auto shared_a = share_operand<kForWgmma>(a, shared);
    sync_threads();
    body(shared_a, b);
  } else {
    const auto shared_b = share_operand<false>(b, shared + kBytesA);
    const auto continue_with = [&](const auto& x) {
      sync_threads();
      if constexpr (kForWgmma)
        body(x, turned_in_place(shared_b));
      else
        body(x, shared_b);
    };
    if constexpr (kMovesA)
      continue_with(share_operand<kForWgmma>(a, shared));
    else
      continue_with(a);
  }
}

/// How a value or a deferred load lies in shared memory.
template <typename Made>
struct SharedForm {
  using type = typename TileCopy<Made>::Shared;
};
template <ValueTile Made>
struct SharedForm<Made> {
  using type = SharedTile<typename Made::value_type, typename Made::shape, true>;
};

/// What `make` returns, in shared memory of its own.
template <bool kIsLarge, bool kReadInPipeline, typename Make>
KILN_DEVICE auto operand_tile(Make& make) {
  using Made = decltype(make());
  constexpr int kBytes = SharedForm<Made>::type::kBytes;
  unsigned char* const place = operand_place<kBytes, Make, kIsLarge>();
  if constexpr (kHasWgmma) sm90::products_wait<0>();
  sync_threads();  // in a loop, the last turn's dots may still read the place
  if constexpr (ValueTile<Made>) {
    const auto tile = share_tile(to_values(make()), place);
    sync_threads();
    return tile;
  } else {
    const Made deferred = make();
    TileCopy<Made>(deferred).copy(shared_window_address(place));
    end_copy_group();
    if constexpr (!kReadInPipeline) {
      wait_for_copies<0>();
      sync_threads();
    }
    return typename SharedForm<Made>::type{shared_window_address(place)};
  }
}

template <bool kIsFresh, int kMaxNumImpreciseAcc, typename A, typename B, typename Sums>
KILN_DEVICE void dot_by_wgmma(const A& a, const B& b, Sums& sums, bool accumulate) {
  using L = typename SettledLayout<typename Sums::layout>::type;
  constexpr bool kMovesA = !is_shared_tile<A> && !kIsFragment<A, L>;
  const auto begin = [&](const auto& x, const auto& y) {
    if constexpr (is_shared_tile<remove_cvref_t<decltype(x)>>)
      begin_products<kMaxNumImpreciseAcc>(x, y, sums, accumulate);
    else
      begin_products_of_fragments<kIsFresh>(x, y, sums, accumulate);
  };
  if constexpr (!kMovesA && is_shared_tile<B>) {
    begin(a, b);
  } else {
    with_shared_operands<true, kMovesA>(a, b, [&](const auto& x, const auto& y) {
      begin(x, y);
      sm90::products_wait<0>();  // the next such dot reuses the place
    });
  }
}

/// Tells a pipeline that lanes read its tile, and that nothing else does.
template <typename Shared>
KILN_DEVICE void read_by_lanes(const Shared& tile) {
  if constexpr (kIsOfPipeline<Shared>) {
    tile.step->start_loads();
    tile.step->values_read();
  }
}

/// acc + a @ b. kIsFresh: a was computed for this dot alone.
template <DotPrecision kPrecision, int kMaxNumImpreciseAcc, bool kIsFresh, typename A, typename B, ValueTile Acc>
KILN_DEVICE auto dot_tile(const A& a, const B& b, const Acc& acc) {
  using T = typename A::value_type;
  using S = typename Acc::shape;
  if constexpr (kUsesWgmma<T, S, kPrecision>) {
    Tile<typename Acc::value_type, S, accumulator_layout_t<T, S, kPrecision>> sums;
    const auto take = [&](const auto& from) {
      KILN_UNROLL for (int r = 0; r < sums.kRegisters; ++r) sums.registers[r] = from.registers[r];
    };
    // Sums that threads add to are waited for first.
    if constexpr (sizeof(T) == 1 && Floating<T> && kMaxNumImpreciseAcc <= A::shape::kColumns)
      take(to_values(acc));
    else
      take(acc);
    dot_by_wgmma<kIsFresh, kMaxNumImpreciseAcc>(a, b, sums, true);
    return sums;
  } else if constexpr ((is_shared_tile<A> || kIsMmaFragment<A, typename Acc::layout>) && is_shared_tile<B>) {
    if constexpr (is_shared_tile<A>) read_by_lanes(a);
    read_by_lanes(b);
    if constexpr (kUsesFma<T, kPrecision>)
      return dot_by_fma(a, b, acc);
    else
      return dot_by_mma(a, b, acc);
  } else {
    Acc result;
    constexpr bool kMovesA = !is_shared_tile<A> && !kIsMmaFragment<A, typename Acc::layout>;
    with_shared_operands<false, kMovesA>(a, b, [&](const auto& x, const auto& y) {
      result = dot_tile<kPrecision, kMaxNumImpreciseAcc, kIsFresh>(x, y, acc);
    });
    return result;
  }
}

/// a @ b, into sums that were not set before.
template <DotPrecision kPrecision, int kMaxNumImpreciseAcc, bool kIsFresh, typename Sums, typename A, typename B>
KILN_DEVICE Sums dot_tile_alone(const A& a, const B& b) {
  Sums sums;
  if constexpr (kUsesWgmma<typename A::value_type, typename Sums::shape, kPrecision>) {
    dot_by_wgmma<kIsFresh, kMaxNumImpreciseAcc>(a, b, sums, false);
    return sums;
  } else {
    KILN_UNROLL for (int r = 0; r < sums.kRegisters; ++r) sums.registers[r] = {};
    return dot_tile<kPrecision, kMaxNumImpreciseAcc, kIsFresh>(a, b, sums);
  }
}

}  // namespace kiln::tl
