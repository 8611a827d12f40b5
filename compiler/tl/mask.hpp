#pragma once

#include "compiler/tl/affine.hpp"
#include "compiler/tl/tile.hpp"

namespace kiln::tl {

// Masks answer questions: all() of the tile, at(row, column, r) of one element, which is in register r, and
// touches(row, first, last), which is false only where no element of a row from column first to column last is wanted.
// Symbolic ones compute the answers from the coordinates, so a whole tile's mask costs one comparison where it is full;
// only a TileMask looks at r. What lies between two elements of a row that a symbolic mask holds for, it holds for too.
// moved(row, column) is the same mask with coordinates counted from there: of a thread's elements from the first, so
// that what is left of the others' coordinates is known to the compiler.

inline constexpr int64_t kLargestBound = 0x7fffffffffffffff;

/// No mask is one.
template <typename M>
KILN_DEVICE bool as_condition() {
  static_assert(sizeof(M) == 0,
                "a mask is no condition, for its elements differ: give it to load, store or where, or ask a number");
  return false;
}

/// values < bound, kept as values - base < room. With strides known to the template the whole comparison fits in 32
/// bits: half the instructions on a GPU, twice the lanes on a CPU.
template <AffineTile A>
struct LessMask {
  using shape = typename A::shape;
  static constexpr bool kNarrow =
      is_constant<typename A::row_stride_type> && is_constant<typename A::column_stride_type>;
  using Room = conditional_t<kNarrow, int32_t, int64_t>;
  /// Further than any element is from the base.
  static constexpr int64_t kReach = kNarrow ? int64_t{1} << 30 : kLargestBound / 2;

  A values;  ///< with base 0
  Room room;

  KILN_DEVICE LessMask(const A& compared, int64_t bound)
      : values{0, compared.row_stride, compared.column_stride}, room(room_between(compared.base, bound)) {}
  KILN_DEVICE LessMask moved(int row, int column) const {
    LessMask result = *this;
    result.room -= value(row, column);
    return result;
  }

  /// bound - base, clamped to kReach either way. Unsigned: a bound like INT64_MAX over a negative base overflows.
  KILN_DEVICE static Room room_between(int64_t base, int64_t bound) {
    const uint64_t distance = static_cast<uint64_t>(bound) - static_cast<uint64_t>(base);
    const bool near = distance + kReach <= 2 * static_cast<uint64_t>(kReach);
    return static_cast<Room>(near ? static_cast<int64_t>(distance) : bound > base ? kReach : -kReach);
  }
  KILN_DEVICE Room value(int row, int column) const {
    return row * static_cast<Room>(static_cast<int64_t>(values.row_stride)) +
           column * static_cast<Room>(static_cast<int64_t>(values.column_stride));
  }
  KILN_DEVICE explicit operator bool() const { return as_condition<LessMask>(); }
  KILN_DEVICE bool all() const { return values.largest() < room; }
  KILN_DEVICE bool at(int row, int column, int) const { return value(row, column) < room; }
  KILN_DEVICE bool touches(int row, int first, int last) const {
    return value(row, first) < room || value(row, last) < room;
  }
};

/// Both of two masks.
template <typename A, typename B>
struct AndMask {
  using shape = broadcast_shape_t<typename A::shape, typename B::shape>;
  A first;
  B second;

  KILN_DEVICE explicit operator bool() const { return as_condition<AndMask>(); }
  KILN_DEVICE bool all() const { return first.all() && second.all(); }
  KILN_DEVICE bool at(int row, int column, int r) const {
    return first.at(row, column, r) && second.at(row, column, r);
  }
  KILN_DEVICE bool touches(int row, int from, int to) const {
    return first.touches(row, from, to) && second.touches(row, from, to);
  }
  KILN_DEVICE AndMask moved(int row, int column) const { return {first.moved(row, column), second.moved(row, column)}; }
};

/// A mask that is not asked for a whole tile, so that no access has a second form for full tiles.
template <typename M>
struct PartialMask {
  using shape = typename M::shape;
  M mask;

  KILN_DEVICE bool all() const { return false; }
  KILN_DEVICE bool at(int row, int column, int r) const { return mask.at(row, column, r); }
  KILN_DEVICE bool touches(int row, int first, int last) const { return mask.touches(row, first, last); }
  KILN_DEVICE PartialMask moved(int row, int column) const { return {mask.moved(row, column)}; }
};

/// One bool for every element of the tile.
template <typename ShapeT>
struct UniformMask {
  using shape = ShapeT;
  bool value;
  KILN_DEVICE bool all() const { return value; }
  KILN_DEVICE bool at(int, int, int) const { return value; }
  KILN_DEVICE bool touches(int, int, int) const { return value; }
  KILN_DEVICE UniformMask moved(int, int) const { return *this; }
};

template <typename T>
inline constexpr bool is_uniform_mask = false;
template <typename S>
inline constexpr bool is_uniform_mask<UniformMask<S>> = true;

/// Given for a mask, it says that all of the tile exists and that its address allows the widest accesses.
struct DirectAccess {};
template <typename ShapeT>
struct DirectMask {
  using shape = ShapeT;
  KILN_DEVICE bool all() const { return true; }
  KILN_DEVICE bool at(int, int, int) const { return true; }
  KILN_DEVICE DirectMask moved(int, int) const { return {}; }
};
template <typename T>
inline constexpr bool is_direct_mask = false;
template <typename S>
inline constexpr bool is_direct_mask<DirectMask<S>> = true;

/// The first `room` elements of a tile of one row. A packet of the widest accesses lies within them or behind them, and
/// those within are at addresses that allow such an access: each is one instruction under a condition, no branch.
template <typename ShapeT>
struct PacketMask {
  using shape = ShapeT;
  int64_t room;
  KILN_DEVICE bool all() const { return false; }
  KILN_DEVICE bool at(int, int column, int) const { return column < room; }
  KILN_DEVICE bool touches(int, int first, int) const { return first < room; }
  KILN_DEVICE PacketMask moved(int, int column) const { return {room - column}; }
};
template <typename T>
inline constexpr bool is_packet_mask = false;
template <typename S>
inline constexpr bool is_packet_mask<PacketMask<S>> = true;

/// Computed per element, in the default layout of its shape.
template <typename ShapeT>
struct TileMask {
  using shape = ShapeT;
  Tile<bool, ShapeT> values;
  KILN_DEVICE bool all() const { return false; }
  KILN_DEVICE bool at(int, int, int r) const { return values.registers[r]; }
  KILN_DEVICE const TileMask& moved(int, int) const { return *this; }
};

template <typename T>
inline constexpr bool is_tile_mask = false;
template <typename S>
inline constexpr bool is_tile_mask<TileMask<S>> = true;

template <typename T>
inline constexpr bool is_symbolic_mask = false;
template <typename A>
inline constexpr bool is_symbolic_mask<LessMask<A>> = true;
template <typename A, typename B>
inline constexpr bool is_symbolic_mask<AndMask<A, B>> = true;
template <typename M>
inline constexpr bool is_symbolic_mask<PartialMask<M>> = true;
template <typename T>
concept SymbolicMask = is_symbolic_mask<T>;

/// Whether a mask says of every column before (kSide = -1) or behind (1) the tile's, too, whether there is an element.
template <typename M, int kSide>
inline constexpr bool kBoundsColumns = false;
template <typename S, typename R, int kSide>
inline constexpr bool kBoundsColumns<LessMask<Affine<S, R, Constant<kSide>>>, kSide> = true;
template <typename A, typename B, int kSide>
inline constexpr bool kBoundsColumns<AndMask<A, B>, kSide> = kBoundsColumns<A, kSide> || kBoundsColumns<B, kSide>;
template <typename M, int kSide>
inline constexpr bool kBoundsColumns<PartialMask<M>, kSide> = kBoundsColumns<M, kSide>;

/// The bound in 64 bits; what is larger than any index stays so.
template <Integer I>
KILN_DEVICE int64_t bound_of(I bound) {
  if constexpr (is_same<I, uint64_t> || is_same<I, unsigned long>)
    return static_cast<int64_t>(bound < kLargestBound ? bound : kLargestBound);
  else
    return static_cast<int64_t>(bound);
}

// The outermost bounds, which have no successor or no negative, stay outermost.
template <AffineTile A, Integer I>
KILN_DEVICE LessMask<A> operator<(const A& values, I bound) {
  return LessMask<A>(values, bound_of(bound));
}
template <AffineTile A, Integer I>
KILN_DEVICE LessMask<A> operator<=(const A& values, I bound) {
  const int64_t last = bound_of(bound);
  return LessMask<A>(values, last == kLargestBound ? last : last + 1);
}
template <AffineTile A, Integer I>
KILN_DEVICE auto operator>(const A& values, I bound) {
  const int64_t before = bound_of(bound);
  return -values < (before < -kLargestBound ? kLargestBound : -before);
}
template <AffineTile A, Integer I>
KILN_DEVICE auto operator>=(const A& values, I bound) {
  const int64_t first = bound_of(bound);
  return -values < (first <= -kLargestBound ? kLargestBound : 1 - first);
}

template <SymbolicMask A, SymbolicMask B>
KILN_DEVICE AndMask<A, B> operator&(const A& a, const B& b) {
  return {a, b};
}
template <SymbolicMask A, SymbolicMask B>
KILN_DEVICE AndMask<A, B> operator&&(const A& a, const B& b) {
  return {a, b};
}

/// Of a mask of one dimension: Triton's mask[None, :] (kAxis 0) and mask[:, None] (1).
template <int kAxis, AffineTile A>
KILN_DEVICE auto expand_dims(const LessMask<A>& x) {
  return expand_dims<kAxis>(x.values) < static_cast<int64_t>(x.room);
}
template <int kAxis, SymbolicMask A, SymbolicMask B>
KILN_DEVICE auto expand_dims(const AndMask<A, B>& x) {
  return expand_dims<kAxis>(x.first) & expand_dims<kAxis>(x.second);
}
template <int kAxis, SymbolicMask M>
KILN_DEVICE auto expand_dims(const PartialMask<M>& x) {
  const auto mask = expand_dims<kAxis>(x.mask);
  return PartialMask<remove_const_t<decltype(mask)>>{mask};
}

}  // namespace kiln::tl
