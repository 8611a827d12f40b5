#pragma once

#include "compiler/tl/cuda/redistribute.hpp"

// Layouts of tiles whose elements stay in the registers they are in while their places in the tile change: reshape,
// join, split, interleave, deinterleave and cat move nothing where one of these says where everything is now. What
// meets such a tile takes its layout; stores, loads like it and operands of dot move its runs whole.

namespace kiln::tl {

/// Rows (kAxis 0) or columns of two tiles of layout L by turns.
template <int kAxis, typename L>
struct Interleaved {
  static constexpr int kRegisters = 2 * L::kRegisters;
  /// Which of the two register r is of, and which register it was.
  static constexpr int part(int r) { return kAxis == 1 ? r % 2 : r / L::kRegisters; }
  static constexpr int inner(int r) { return kAxis == 1 ? r / 2 : r % L::kRegisters; }
  KILN_DEVICE static int row(int r) { return kAxis == 0 ? 2 * L::row(inner(r)) + part(r) : L::row(inner(r)); }
  KILN_DEVICE static int column(int r) { return kAxis == 1 ? 2 * L::column(inner(r)) + part(r) : L::column(inner(r)); }
  KILN_DEVICE static bool owns(int r) { return L::owns(inner(r)); }
};

/// Either of the two tiles that neighbouring columns of one of layout L make: registers 2 * r and 2 * r + 1 are such.
template <typename L>
struct Pairs {
  static constexpr int kRegisters = L::kRegisters / 2;
  KILN_DEVICE static int row(int r) { return L::row(2 * r); }
  KILN_DEVICE static int column(int r) { return L::column(2 * r) / 2; }
  KILN_DEVICE static bool owns(int r) { return L::owns(2 * r); }
};

/// Two one-dimensional tiles of layout L as the columns of one.
template <typename L>
struct Joined {
  static constexpr int kRegisters = 2 * L::kRegisters;
  KILN_DEVICE static int row(int r) { return L::column(r / 2); }
  KILN_DEVICE static int column(int r) { return r % 2; }
  KILN_DEVICE static bool owns(int r) { return L::owns(r / 2); }
};

/// Either column of a tile of two columns, of which registers 2 * r and 2 * r + 1 hold one row.
template <typename L>
struct JoinedColumn {
  static constexpr int kRegisters = L::kRegisters / 2;
  KILN_DEVICE static int row(int) { return 0; }
  KILN_DEVICE static int column(int r) { return L::row(2 * r); }
  KILN_DEVICE static bool owns(int r) { return L::owns(2 * r); }
};

/// A tile of shape From in layout L, row-major in shape To.
template <typename L, typename From, typename To>
struct Reshaped {
  static constexpr int kRegisters = L::kRegisters;
  KILN_DEVICE static int element(int r) { return L::row(r) * From::kColumns + L::column(r); }
  KILN_DEVICE static int row(int r) { return To::kRows == 1 ? 0 : element(r) / To::kColumns; }
  KILN_DEVICE static int column(int r) { return To::kRows == 1 ? element(r) : element(r) % To::kColumns; }
  KILN_DEVICE static bool owns(int r) { return L::owns(r); }
};

/// A tile of layout B behind one of layout A that has kFirst rows (kAxis 0) or columns.
template <int kAxis, int kFirst, typename A, typename B>
struct Catenated {
  static constexpr int kRegisters = A::kRegisters + B::kRegisters;
  static constexpr bool is_first(int r) { return r < A::kRegisters; }
  KILN_DEVICE static int row(int r) {
    return is_first(r) ? A::row(r) : B::row(r - A::kRegisters) + (kAxis == 0 ? kFirst : 0);
  }
  KILN_DEVICE static int column(int r) {
    return is_first(r) ? A::column(r) : B::column(r - A::kRegisters) + (kAxis == 1 ? kFirst : 0);
  }
  KILN_DEVICE static bool owns(int r) { return is_first(r) ? A::owns(r) : B::owns(r - A::kRegisters); }
};

/// Rows (kAxis 0) or columns kFirst to kFirst + kExtent - 1 of a tile of layout L, on their way elsewhere: the other
/// registers are nobody's.
template <int kAxis, int kFirst, int kExtent, typename L>
struct Part {
  static constexpr int kRegisters = L::kRegisters;
  KILN_DEVICE static int row(int r) { return L::row(r) - (kAxis == 0 ? kFirst : 0); }
  KILN_DEVICE static int column(int r) { return L::column(r) - (kAxis == 1 ? kFirst : 0); }
  KILN_DEVICE static bool owns(int r) {
    const int place = kAxis == 0 ? row(r) : column(r);
    return L::owns(r) && place >= 0 && place < kExtent;
  }
};

/// Every other row (kAxis 0) or column from kFirst on, likewise.
template <int kAxis, int kFirst, typename L>
struct EveryOther {
  static constexpr int kRegisters = L::kRegisters;
  KILN_DEVICE static int row(int r) { return kAxis == 0 ? L::row(r) / 2 : L::row(r); }
  KILN_DEVICE static int column(int r) { return kAxis == 1 ? L::column(r) / 2 : L::column(r); }
  KILN_DEVICE static bool owns(int r) { return L::owns(r) && (kAxis == 0 ? L::row(r) : L::column(r)) % 2 == kFirst; }
};

/// Whether L is one of those that tiles are kept in.
template <typename L>
inline constexpr bool kIsArranged = false;
template <int kAxis, typename L>
inline constexpr bool kIsArranged<Interleaved<kAxis, L>> = true;
template <typename L>
inline constexpr bool kIsArranged<Pairs<L>> = true;
template <typename L>
inline constexpr bool kIsArranged<Joined<L>> = true;
template <typename L>
inline constexpr bool kIsArranged<JoinedColumn<L>> = true;
template <typename L, typename From, typename To>
inline constexpr bool kIsArranged<Reshaped<L, From, To>> = true;
template <int kAxis, int kFirst, typename A, typename B>
inline constexpr bool kIsArranged<Catenated<kAxis, kFirst, A, B>> = true;

template <typename L>
  requires(kIsArranged<L>)
inline constexpr bool kIsMeetingLayout<L> = true;

/// The largest power of two that divides `number`.
constexpr int power_of_two_in(int number) {
  return number & -number;
}

template <int kAxis, typename L>
inline constexpr int kRunOf<Interleaved<kAxis, L>> = kAxis == 1 ? 2 * kRunOf<L> : kRunOf<L>;
template <typename L>
inline constexpr int kRunOf<Pairs<L>> = kRunOf<L> / 2;
template <typename L>
inline constexpr int kRunOf<Joined<L>> = 2;
template <typename L, typename From, typename To>
inline constexpr int kRunOf<Reshaped<L, From, To>> = smaller(kRunOf<L>, power_of_two_in(To::kColumns));
template <int kAxis, int kFirst, typename A, typename B>
inline constexpr int kRunOf<Catenated<kAxis, kFirst, A, B>> =
    smaller(smaller(kRunOf<A>, kRunOf<B>), kAxis == 1 ? power_of_two_in(kFirst) : kRunOf<A>);

// What becomes of a layout: the simplest one that says where everything is, so that what is undone is as before.

/// Whether tiles of shapes A and B of the default layout, of which B has twice the columns, lie in one another's
/// registers: pairs of B's in those of A's.
template <typename A, typename B>
inline constexpr bool kHoldsPairsOf = Blocked<B>::kVector == 2 * Blocked<A>::kVector && !Blocked<A>::kReplicated;

template <typename S>
struct DoubledColumns;
template <int kN>
struct DoubledColumns<Shape<kN>> {
  using type = Shape<2 * kN>;
};
template <int kM, int kN>
struct DoubledColumns<Shape<kM, kN>> {
  using type = Shape<kM, 2 * kN>;
};
template <typename S>
struct HalvedColumns;
template <int kN>
struct HalvedColumns<Shape<kN>> {
  using type = Shape<kN / 2>;
};
template <int kM, int kN>
struct HalvedColumns<Shape<kM, kN>> {
  using type = Shape<kM, kN / 2>;
};

template <int kAxis, typename L>
struct InterleavedOf {
  using type = Interleaved<kAxis, L>;
};
template <typename L>
struct InterleavedOf<1, Pairs<L>> {
  using type = L;
};
template <typename S>
struct InterleavedOf<1, Blocked<S>> {
  using Wide = typename DoubledColumns<S>::type;
  using type = conditional_t<kHoldsPairsOf<S, Wide>, Blocked<Wide>, Interleaved<1, Blocked<S>>>;
};

template <typename L>
struct PairsOf {
  using type = Pairs<L>;
};
template <typename L>
struct PairsOf<Interleaved<1, L>> {
  using type = L;
};
template <typename S>
struct PairsOf<Blocked<S>> {
  using Half = typename HalvedColumns<S>::type;
  using type = conditional_t<kHoldsPairsOf<Half, S>, Blocked<Half>, Pairs<Blocked<S>>>;
};

template <typename L>
struct JoinedOf {
  using type = Joined<L>;
};
template <typename L>
struct JoinedOf<JoinedColumn<L>> {
  using type = L;
};
template <typename L>
struct JoinedColumnOf {
  using type = JoinedColumn<L>;
};
template <typename L>
struct JoinedColumnOf<Joined<L>> {
  using type = L;
};
/// What was one row: pairs of it.
template <typename L, int kN, typename To>
struct JoinedColumnOf<Reshaped<L, Shape<kN>, To>> : PairsOf<L> {};

template <typename L, typename From, typename To>
struct ReshapedOf {
  using type = Reshaped<L, From, To>;
};
template <typename L, typename S>
struct ReshapedOf<L, S, S> {
  using type = L;
};
template <typename L, typename First, typename From, typename To>
  requires(!is_same<From, To>)
struct ReshapedOf<Reshaped<L, First, From>, From, To> : ReshapedOf<L, First, To> {};
/// Both are dealt row-major in runs; of the same length they are the same.
template <typename From, typename To>
  requires(!is_same<From, To>)
struct ReshapedOf<Blocked<From>, From, To> {
  using type =
      conditional_t<Blocked<From>::kVector == Blocked<To>::kVector, Blocked<To>, Reshaped<Blocked<From>, From, To>>;
};
/// A join of one-dimensional tiles in one row is those by turns.
template <typename L, int kN, int kTwice>
struct ReshapedOf<Joined<L>, Shape<kN, 2>, Shape<kTwice>> : InterleavedOf<1, L> {};

/// A tile of the default layout of shape Whole is two of the default layout of shape Half, one behind the other in
/// row-major order, in the registers of every thread.
template <typename Half, typename Whole>
inline constexpr bool kIsTwoOf = Blocked<Whole>::kVector == Blocked<Half>::kVector && !Blocked<Half>::kReplicated &&
                                 Blocked<Whole>::kRegisters == 2 * Blocked<Half>::kRegisters;

template <int kAxis, typename SA, typename A, typename SB, typename B, typename Whole>
struct CatenatedOf {
  using type = Catenated<kAxis, kAxis == 0 ? SA::kRows : SA::kColumns, A, B>;
};
template <int kAxis, typename S, typename Whole>
  requires(kIsTwoOf<S, Whole> && (kAxis == 0 || S::kRows == 1))
struct CatenatedOf<kAxis, S, Blocked<S>, S, Blocked<S>, Whole> {
  using type = Blocked<Whole>;
};

}  // namespace kiln::tl
