#pragma once

#include "compiler/tl/broadcast.hpp"
#include "compiler/tl/cuda/arrangement_layout.hpp"
#include "compiler/tl/cuda/wgmma_layout.hpp"

namespace kiln::tl {

/// The tile in a layout whose registers all count: the default one, or one of those of arrangement_layout.hpp.
template <Number T, typename S, typename L>
KILN_DEVICE auto arrangeable(const Tile<T, S, L>& x) {
  if constexpr (kIsArranged<L>)
    return x;
  else
    return broadcast_to_shape<S>(x);
}

template <typename To, Number T, typename S, typename L>
KILN_DEVICE auto reshape_tile(const Tile<T, S, L>& x) {
  const auto from = arrangeable(x);
  Tile<T, To, typename ReshapedOf<typename decltype(from)::layout, S, To>::type> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = from.registers[r];
  return result;
}

/// f(a, b) of two tiles of one shape, in one layout.
template <Number T, typename S, typename A, typename B, typename F>
KILN_DEVICE auto in_one_layout(const Tile<T, S, A>& a, const Tile<T, S, B>& b, F f) {
  const auto first = arrangeable(a);
  const auto second = arrangeable(b);
  using L = typename MeetingLayout<S, remove_cvref_t<decltype(first)>, remove_cvref_t<decltype(second)>>::type;
  return f(broadcast_to_shape<S, L>(first), broadcast_to_shape<S, L>(second));
}

template <typename To, Number T, typename S, typename A, typename B>
KILN_DEVICE auto join_tiles(const Tile<T, S, A>& a, const Tile<T, S, B>& b) {
  return in_one_layout(a, b, [](const auto& x, const auto& y) {
    Tile<T, To, typename JoinedOf<typename remove_cvref_t<decltype(x)>::layout>::type> result;
    KILN_UNROLL for (int r = 0; r < x.kRegisters; ++r) {
      result.registers[2 * r] = x.registers[r];
      result.registers[2 * r + 1] = y.registers[r];
    }
    return result;
  });
}

template <int kAxis, typename To, Number T, typename S, typename A, typename B>
KILN_DEVICE auto interleave_tiles(const Tile<T, S, A>& a, const Tile<T, S, B>& b) {
  return in_one_layout(a, b, [](const auto& x, const auto& y) {
    using L = typename remove_cvref_t<decltype(x)>::layout;
    using Both = Interleaved<kAxis, L>;
    Tile<T, To, typename InterleavedOf<kAxis, L>::type> result;
    KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] =
        Both::part(r) == 0 ? x.registers[Both::inner(r)] : y.registers[Both::inner(r)];
    return result;
  });
}

/// The Tuple of every other register of x, in layout L.
template <typename To, typename L, Number T, typename S, typename From>
KILN_DEVICE auto pairs_apart(const Tile<T, S, From>& x) {
  Tuple<Tile<T, To, L>, Tile<T, To, L>> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
    result.first.registers[r] = x.registers[2 * r];
    result.second.registers[r] = x.registers[2 * r + 1];
  }
  return result;
}
/// The same of the first and the second half of x's registers.
template <typename To, typename L, Number T, typename S, typename From>
KILN_DEVICE auto halves_apart(const Tile<T, S, From>& x) {
  Tuple<Tile<T, To, L>, Tile<T, To, L>> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
    result.first.registers[r] = x.registers[r];
    result.second.registers[r] = x.registers[L::kRegisters + r];
  }
  return result;
}
/// The tile of shape To that L says is in x's registers, in its default layout.
template <typename To, typename L, Number T, typename S, typename From>
KILN_DEVICE Tile<T, To> taken(const Tile<T, S, From>& x) {
  Tile<T, To, L> part;
  KILN_UNROLL for (int r = 0; r < part.kRegisters; ++r) part.registers[r] = x.registers[r];
  return redistribute<To, DefaultLayout<To>>(part);
}

template <typename To, Number T, typename S, typename L>
KILN_DEVICE auto split_tile(const Tile<T, S, L>& x) {
  const auto from = arrangeable(x);
  using From = typename decltype(from)::layout;
  if constexpr (kRunOf<From> == 2) {
    return pairs_apart<To, typename JoinedColumnOf<From>::type>(from);
  } else {
    // A column is a tile of one column, row-major.
    using Column = Shape<To::kColumns, 1>;
    return Tuple{reshape_tile<To>(taken<Column, EveryOther<1, 0, From>>(from)),
                 reshape_tile<To>(taken<Column, EveryOther<1, 1, From>>(from))};
  }
}

template <typename L>
struct RowsByTurns {
  static constexpr bool kAre = false;
};
template <typename L>
struct RowsByTurns<Interleaved<0, L>> {
  static constexpr bool kAre = true;
  using type = L;
};

template <int kAxis, typename To, Number T, typename S, typename L>
KILN_DEVICE auto deinterleave_tile(const Tile<T, S, L>& x) {
  const auto from = arrangeable(x);
  using From = typename decltype(from)::layout;
  if constexpr (kAxis == 1 && kRunOf<From> >= 2)
    return pairs_apart<To, typename PairsOf<From>::type>(from);
  else if constexpr (kAxis == 0 && RowsByTurns<From>::kAre)
    return halves_apart<To, typename RowsByTurns<From>::type>(from);
  else
    return Tuple{taken<To, EveryOther<kAxis, 0, From>>(from), taken<To, EveryOther<kAxis, 1, From>>(from)};
}

/// Columns of two tiles in the layout of warpgroups' sums, which goes on to be the layout: each block of rows has its
/// registers of one behind those of the other.
template <int kAxis, typename To, Number T, typename SA, typename SB>
  requires(kAxis == 1 && WgmmaLayout<SA>::kRowsInLanes && WgmmaLayout<SB>::kRowsInLanes && WarpgroupGrid<To>::kFits)
KILN_DEVICE auto cat_tiles(const Tile<T, SA, WgmmaLayout<SA>>& a, const Tile<T, SB, WgmmaLayout<SB>>& b) {
  constexpr int kOfA = WgmmaLayout<SA>::kBlockRegisters, kOfB = WgmmaLayout<SB>::kBlockRegisters;
  Tile<T, To, WgmmaLayout<To>> result;
  // Not one by one: of words that hold several the compiler would take each apart.
  KILN_UNROLL for (int block = 0; block < WgmmaLayout<To>::kRowBlocks; ++block) {
    T* const to = &result.registers[block * (kOfA + kOfB)];
    memcpy(to, &a.registers[block * kOfA], kOfA * sizeof(T));
    memcpy(to + kOfA, &b.registers[block * kOfB], kOfB * sizeof(T));
  }
  return result;
}

template <int kAxis, typename To, Number T, typename SA, typename A, typename SB, typename B>
KILN_DEVICE auto cat_tiles(const Tile<T, SA, A>& a, const Tile<T, SB, B>& b) {
  const auto first = arrangeable(a);
  const auto second = arrangeable(b);
  using First = typename decltype(first)::layout;
  using Second = typename decltype(second)::layout;
  Tile<T, To, typename CatenatedOf<kAxis, SA, First, SB, Second, To>::type> result;
  KILN_UNROLL for (int r = 0; r < first.kRegisters; ++r) result.registers[r] = first.registers[r];
  KILN_UNROLL for (int r = 0; r < second.kRegisters; ++r) result.registers[first.kRegisters + r] = second.registers[r];
  return result;
}

/// The first of two tiles of one shape that are one behind the other in the registers of layout L.
template <int kAxis, typename To, typename L>
struct OneBehindOther {
  static constexpr bool kAre = false;
};
template <int kAxis, typename To, typename L>
struct OneBehindOther<kAxis, To, Catenated<kAxis, kAxis == 0 ? To::kRows : To::kColumns, L, L>> {
  static constexpr bool kAre = true;
  using type = L;
};
template <int kAxis, typename To, typename S>
  requires(kIsTwoOf<To, S> && (kAxis == 0 || S::kRows == 1))
struct OneBehindOther<kAxis, To, Blocked<S>> {
  static constexpr bool kAre = true;
  using type = Blocked<To>;
};

template <int kAxis, typename To, Number T, typename S, typename L>
KILN_DEVICE auto halve_tile(const Tile<T, S, L>& x) {
  const auto from = arrangeable(x);
  using From = typename decltype(from)::layout;
  using Apart = OneBehindOther<kAxis, To, From>;
  constexpr int kExtent = kAxis == 0 ? To::kRows : To::kColumns;
  if constexpr (Apart::kAre)
    return halves_apart<To, typename Apart::type>(from);
  else
    return Tuple{taken<To, Part<kAxis, 0, kExtent, From>>(from), taken<To, Part<kAxis, kExtent, kExtent, From>>(from)};
}

}  // namespace kiln::tl
