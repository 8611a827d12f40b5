#pragma once

#include "compiler/tl/arithmetic.hpp"
#include "compiler/tl/cast.hpp"
#include "compiler/tl/cuda/redistribute.hpp"
#include "compiler/tl/cuda/sm90/wgmma.hpp"
#include "compiler/tl/cuda/wgmma_layout.hpp"

namespace kiln::tl {

/// The layout of sums that wgmma may still be adding to, behind the program's back.
template <typename L>
struct InFlight {
  static constexpr int kRegisters = L::kRegisters;
};

/// What tl::dot accumulates into on wgmma: sums that are waited for when somebody reads them, and not before, so that
/// products go on while the next step's loads are started. A dot takes them as they are.
template <Number T, typename S, typename L>
struct Tile<T, S, InFlight<L>> {
  using value_type = T;
  using shape = S;
  using layout = InFlight<L>;
  static constexpr int kRegisters = L::kRegisters;

  mutable T registers[kRegisters];
  /// Whether they are to be waited for, and whether a dot has begun them. Constants, once everything is inlined: sums
  /// that no dot has begun are waited for as well, each time, which costs next to nothing, so that a loop that begins
  /// without a dot and goes on with one need not ask.
  mutable bool is_pending = true;
  bool is_begun = false;

  Tile() = default;
  KILN_DEVICE Tile(const Tile<T, S, L>& settled) { take(settled.registers); }
  KILN_DEVICE Tile(const Tile& other) { take(other.settled().registers); }
  KILN_DEVICE Tile(Tile&& other) { move(other); }
  KILN_DEVICE Tile& operator=(const Tile& other) {
    take(other.settled().registers);
    is_pending = true;
    is_begun = false;
    return *this;
  }
  KILN_DEVICE Tile& operator=(Tile&& other) {
    move(other);
    return *this;
  }

  /// The sums, which are complete from here on.
  KILN_DEVICE Tile<T, S, L> settled() const {
    if (is_pending) {
      sm90::products_wait<0>();
      sm90::keep_registers(registers);
      is_pending = !is_begun;
    }
    Tile<T, S, L> result;
    KILN_UNROLL for (int r = 0; r < kRegisters; ++r) result.registers[r] = registers[r];
    return result;
  }

 private:
  KILN_DEVICE void take(const T (&from)[kRegisters]) {
    KILN_UNROLL for (int r = 0; r < kRegisters; ++r) registers[r] = from[r];
  }
  KILN_DEVICE void move(const Tile& other) {
    take(other.registers);
    is_pending = other.is_pending;
    is_begun = other.is_begun;
  }
};

/// ptxas moves a wait for products up to the beginning of its basic block, in front of what is to be computed while
/// they go on. What is computed decides about a branch in front of the wait, which begins another one.
template <typename... Tiles>
KILN_DEVICE void compute_before_wait(const Tiles&... computed) {
  uint32_t bits = 0;
  const auto add = [&](const auto& tile) {
    KILN_UNROLL for (int r = 0; r < tile.kRegisters; ++r) bits |= __builtin_bit_cast(uint32_t, tile.registers[r]);
  };
  (add(computed), ...);
  asm volatile(
      "{\n .reg .pred is_set;\n setp.ne.u32 is_set, %0, 0;\n @is_set bra computed;\n nanosleep.u32 0;\n"
      "computed:\n}" ::"r"(bits)
      : "memory");
}

template <int kLater, Number T, typename S, typename L, typename... Computed>
KILN_DEVICE Tile<T, S, L> wait_for_products(const Tile<T, S, InFlight<L>>& sums, const Computed&... computed) {
  if constexpr (sizeof...(Computed) > 0) compute_before_wait(computed...);
  sm90::products_wait<kLater>();
  sm90::keep_registers(sums.registers);
  sums.is_pending = !sums.is_begun;
  Tile<T, S, L> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) result.registers[r] = sums.registers[r];
  return result;
}

template <Number T, typename S, typename L>
KILN_DEVICE Tile<T, S, L> to_values(const Tile<T, S, InFlight<L>>& x) {
  return x.settled();
}
template <Number To, Number From, typename S, typename L>
KILN_DEVICE Tile<To, S, L> cast(const Tile<From, S, InFlight<L>>& x) {
  return cast<To>(x.settled());
}

/// Of fewer sums a lane the question costs more than it spares (32 of attention with heads of 64: 4%).
template <Number T, typename S, typename L>
inline constexpr bool kSparesFactorsOfOne<Tile<T, S, InFlight<L>>> = L::kRegisters >= 64;

/// Sums times a factor for each of their rows. A warp whose rows' factors are all 1 leaves its sums as they are: those
/// of a running softmax need not fade where no row's largest score has changed.
template <Number T, typename S, typename L, typename R>
  requires(kBroadcastsInPlace<Expanded<1, R>, S, L> && kSparesFactorsOfOne<Tile<T, S, InFlight<L>>>)
KILN_DEVICE Tile<T, S, L> operator*(const Tile<T, S, InFlight<L>>& sums,
                                    const Tile<T, Shape<S::kRows, 1>, Expanded<1, R>>& factors) {
  Tile<T, S, L> result = sums.settled();
  bool scale = false;
  KILN_UNROLL for (int r = 0; r < factors.kRegisters; ++r) scale |= factors.registers[r] != T{1};
  if (__builtin_expect(__any_sync(0xffffffffu, scale), 0)) result = result * factors;
  return result;
}

template <typename L>
struct SettledLayout {
  using type = L;
};
template <typename L>
struct SettledLayout<InFlight<L>> {
  using type = L;
};

}  // namespace kiln::tl
