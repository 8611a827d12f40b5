#pragma once

#include <kiln/tl.hpp>

#include "ops/reduction/iteration.hpp"

// One reducer per kind of reduction, over numbers of type Accumulator; what differs between ops is here, and only here.
//
// A State (a number or a tl::Tuple of them) stands for a set of elements; combine() joins two. A Run is what a lane
// carries through tiles that are full, where every lane has seen the same number of elements: cheaper to keep, and
// finish() makes a State of it. add() is told the place of a step's first element within the chunk. Most reducers have
// no use for that and run on their State (kRunIsState). neutral() is an element that changes nothing, where there is
// one (kHasNeutral): in tiles that are not full it stands for what is not there. widen() makes a position inside a
// chunk one inside the whole, finalize() the op's results. Where a place is searched for in several dimensions,
// place_along() makes a position along one of them the place in all.

namespace kiln::ops {

// The GPU's own instructions where a reducer needs less than C++'s operators promise, many times per element.
#if defined(KILN_TARGET_CUDA)
/// 1 / x within an ulp, for whole numbers from 1 on: a division is a dozen instructions and a branch.
KILN_DEVICE float reciprocal_of_count(float x) {
  return tl::scalar::reciprocal_approximate(x);
}
/// 2^x within two ulps; 0 below 2^-126, which no sum that holds a 1 can tell.
KILN_DEVICE float exp2_of_difference(float x) {
  return tl::scalar::exp2_approximate(x);
}
#else
KILN_DEVICE float reciprocal_of_count(float x) {
  return 1.0f / x;
}
KILN_DEVICE float exp2_of_difference(float x) {
  return tl::scalar::exp2(x);
}
#endif
KILN_DEVICE double reciprocal_of_count(double x) {
  return 1.0 / x;
}
template <bool kLargest, typename Acc>
KILN_DEVICE Acc more_extreme(Acc x, Acc y) {
  return kLargest ? tl::larger_number(x, y) : tl::smaller_number(x, y);
}

/// Where a lane's elements of a run were.
struct RunEnd {
  tl::int32_t lane;   ///< their place within a tile
  tl::int32_t first;  ///< position of the first one within the chunk
};

/// What most reducers share: a run is a state, and adding an element is combining with its state.
template <typename Self, typename Acc, typename StateT>
struct PlainReducer {
  using Accumulator = Acc;
  using State = StateT;
  static constexpr bool kSymmetric = true, kRunIsState = true, kShifts = false;
  static constexpr bool kHasNeutral = true, kNeutralIsZero = false;
  ReductionScalars scalars;

  KILN_DEVICE Acc neutral() const { return Acc(0); }
  template <int kBlock, int kCount>
  KILN_DEVICE State add(State run, const Acc (&x)[kCount], tl::int32_t) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) run = self().combine(run, self().element(x[i], 0));
    return run;
  }
  KILN_DEVICE State widen(State state, tl::int64_t) const { return state; }
  KILN_DEVICE State wide_identity() const { return self().identity(); }

 private:
  KILN_DEVICE const Self& self() const { return static_cast<const Self&>(*this); }
};

template <typename Self, typename Acc>
struct Adding : PlainReducer<Self, Acc, Acc> {
  static constexpr bool kNeutralIsZero = true;
  KILN_DEVICE Acc identity() const { return Acc(0); }
  KILN_DEVICE Acc combine(Acc x, Acc y) const { return tl::SumOp()(x, y); }
};

template <typename Acc>
struct SumReducer : Adding<SumReducer<Acc>, Acc> {
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return x; }
  KILN_DEVICE auto finalize(Acc sum) const { return tl::Tuple{sum}; }
};

template <typename Acc>
struct MeanReducer : Adding<MeanReducer<Acc>, Acc> {
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return x; }
  KILN_DEVICE auto finalize(Acc sum) const { return tl::Tuple{sum / static_cast<Acc>(this->scalars.divisor)}; }
};

template <typename Acc>
struct ProdReducer : PlainReducer<ProdReducer<Acc>, Acc, Acc> {
  KILN_DEVICE Acc identity() const { return Acc(1); }
  KILN_DEVICE Acc neutral() const { return Acc(1); }
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return x; }
  KILN_DEVICE Acc combine(Acc x, Acc y) const { return tl::ProdOp()(x, y); }
  KILN_DEVICE auto finalize(Acc product) const { return tl::Tuple{product}; }
};

/// Below (kLargest) or above every number.
template <typename Acc, bool kLargest>
KILN_DEVICE Acc least_extreme() {
  if constexpr (tl::NumberTraits<Acc>::kIsFloating)
    return kLargest ? -static_cast<Acc>(INFINITY) : static_cast<Acc>(INFINITY);
  else
    return kLargest ? tl::IntegerLimits<Acc>::kMin : tl::IntegerLimits<Acc>::kMax;
}

template <typename Acc, bool kLargest>
struct ExtremumReducer : PlainReducer<ExtremumReducer<Acc, kLargest>, Acc, Acc> {
  KILN_DEVICE Acc identity() const { return least_extreme<Acc, kLargest>(); }
  KILN_DEVICE Acc neutral() const { return identity(); }
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return x; }
  KILN_DEVICE Acc combine(Acc x, Acc y) const { return more_extreme<kLargest>(x, y); }
  KILN_DEVICE auto finalize(Acc value) const { return tl::Tuple{value}; }
};

/// The extremum with its place. A run remembers which tile it was in, one number for all lanes, and the place follows
/// from the lane: an index per element would be counted up in each register.
template <typename Acc, bool kLargest, bool kWithValue>
struct ArgExtremumReducer {
  using Accumulator = Acc;
  using State = tl::Tuple<Acc, tl::int32_t>;
  static constexpr bool kSymmetric = true, kRunIsState = false, kShifts = false;
  static constexpr bool kHasNeutral = true, kNeutralIsZero = false;
  /// In place of a position: positions of tiles that start before the first element are negative too.
  static constexpr tl::int32_t kNowhere = tl::IntegerLimits<tl::int32_t>::kMin;
  ReductionScalars scalars;

  KILN_DEVICE Acc neutral() const { return least_extreme<Acc, kLargest>(); }

  KILN_DEVICE State identity() const { return {least_extreme<Acc, kLargest>(), tl::IntegerLimits<tl::int32_t>::kMax}; }
  KILN_DEVICE State element(Acc x, tl::int32_t position) const { return {x, position}; }
  KILN_DEVICE auto combine(const auto& x, const auto& y) const { return tl::ExtremumOp<kLargest>()(x, y); }

  /// Nothing falls below the least value, so a lane of nothing but that is found nowhere: at its first element.
  KILN_DEVICE State start() const { return {least_extreme<Acc, kLargest>(), kNowhere}; }
  template <int kBlock, int kCount>
  KILN_DEVICE State add(State run, const Acc (&x)[kCount], tl::int32_t position) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      // Greater or one of them NaN, and it is not the one held: two comparisons.
      bool better = kLargest ? !(x[i] <= run.first) : !(x[i] >= run.first);
      if constexpr (tl::NumberTraits<Acc>::kIsFloating) better = better & (run.first == run.first);
      run.first = better ? x[i] : run.first;
      run.second = better ? position + i * kBlock : run.second;
    }
    return run;
  }
  KILN_DEVICE State finish(State run, const RunEnd& end) const {
    return {run.first, run.second == kNowhere ? end.first : run.second + end.lane};
  }
  KILN_DEVICE tl::Tuple<Acc, tl::int64_t> widen(const State& state, tl::int64_t origin) const {
    return {state.first, state.second + origin};
  }
  KILN_DEVICE tl::Tuple<Acc, tl::int64_t> place_along(const tl::Tuple<Acc, tl::int64_t>& state, tl::int64_t first,
                                                      tl::int64_t stride) const {
    return {state.first, first + state.second * stride};
  }
  KILN_DEVICE tl::Tuple<Acc, tl::int64_t> wide_identity() const {
    return {least_extreme<Acc, kLargest>(), tl::IntegerLimits<tl::int64_t>::kMax};
  }
  KILN_DEVICE auto finalize(const tl::Tuple<Acc, tl::int64_t>& state) const {
    if constexpr (kWithValue)
      return state;
    else
      return tl::Tuple{state.second};
  }
};

template <typename Acc>
struct AnyReducer : PlainReducer<AnyReducer<Acc>, Acc, tl::int32_t> {
  static constexpr bool kNeutralIsZero = true;
  KILN_DEVICE tl::int32_t identity() const { return 0; }
  KILN_DEVICE tl::int32_t element(Acc x, tl::int32_t) const { return x != Acc(0); }
  KILN_DEVICE tl::int32_t combine(tl::int32_t x, tl::int32_t y) const { return x | y; }
  KILN_DEVICE auto finalize(tl::int32_t found) const { return tl::Tuple{found != 0}; }
};

template <typename Acc>
struct AllReducer : PlainReducer<AllReducer<Acc>, Acc, tl::int32_t> {
  KILN_DEVICE Acc neutral() const { return Acc(1); }
  KILN_DEVICE tl::int32_t identity() const { return 1; }
  KILN_DEVICE tl::int32_t element(Acc x, tl::int32_t) const { return x != Acc(0); }
  KILN_DEVICE tl::int32_t combine(tl::int32_t x, tl::int32_t y) const { return x & y; }
  KILN_DEVICE auto finalize(tl::int32_t held) const { return tl::Tuple{held != 0}; }
};

/// norm with p = 0.
template <typename Acc>
struct CountReducer : Adding<CountReducer<Acc>, Acc> {
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return x != Acc(0) ? Acc(1) : Acc(0); }
  KILN_DEVICE auto finalize(Acc count) const { return tl::Tuple{count}; }
};

/// norm with p = 1.
template <typename Acc>
struct AbsSumReducer : Adding<AbsSumReducer<Acc>, Acc> {
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return tl::scalar::fabs(x); }
  KILN_DEVICE auto finalize(Acc sum) const { return tl::Tuple{sum}; }
};

/// norm with p = 2.
template <typename Acc>
struct EuclideanReducer : Adding<EuclideanReducer<Acc>, Acc> {
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return x * x; }
  KILN_DEVICE auto finalize(Acc sum) const { return tl::Tuple{tl::scalar::sqrt_rn(sum)}; }
};

/// norm with any other finite p.
template <typename Acc>
struct PowerSumReducer : Adding<PowerSumReducer<Acc>, Acc> {
  static constexpr bool kHasNeutral = false;  // 0 to a negative power is infinite
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const {
    return tl::scalar::pow(tl::scalar::fabs(x), static_cast<Acc>(this->scalars.exponent));
  }
  KILN_DEVICE auto finalize(Acc sum) const {
    return tl::Tuple{tl::scalar::pow(sum, static_cast<Acc>(1 / this->scalars.exponent))};
  }
};

/// norm with p = inf (kLargest) and p = -inf.
template <typename Acc, bool kLargest>
struct AbsExtremumReducer : PlainReducer<AbsExtremumReducer<Acc, kLargest>, Acc, Acc> {
  KILN_DEVICE Acc identity() const { return kLargest ? Acc(0) : static_cast<Acc>(INFINITY); }
  KILN_DEVICE Acc neutral() const { return identity(); }
  KILN_DEVICE Acc element(Acc x, tl::int32_t) const { return tl::scalar::fabs(x); }
  KILN_DEVICE Acc combine(Acc x, Acc y) const { return more_extreme<kLargest>(x, y); }
  KILN_DEVICE auto finalize(Acc value) const { return tl::Tuple{value}; }
};

/// Count, mean, and the sum of squared distances from the mean, of elements less the pivot, which is one of the set
/// (kShifts). Sets are joined as Chan, Golub and LeVeque do ("Updating formulae and a pairwise algorithm for computing
/// sample variances", 1979): a sum of squares would cancel. A mean from 0 would be rounded by its own size, which may
/// be far above the distances; from the pivot, and differences of elements near one another are exact, it is by theirs.
///
/// A run adds elements as Welford does ("Note on a method for calculating corrected sums of squares and products",
/// 1962), counted from its lane's first one: where that lies far out, so does the result, and hides what it costs.
/// Sums of distances and of their squares, moved to the mean now and then, were the alternative: less to wait for from
/// one element to the next, but on a GPU twice the registers, and a third slower.
template <typename Acc, bool kSquareRoot>
struct VarReducer {
  using Accumulator = Acc;
  using State = tl::Tuple<Acc, Acc, Acc>;
  using Run = tl::Tuple<Acc, Acc, Acc>;  ///< the first element, the mean from there, the sum of squared distances
  static constexpr bool kSymmetric = false, kRunIsState = false, kShifts = true, kHasNeutral = false;
  ReductionScalars scalars;

  KILN_DEVICE State identity() const { return {Acc(0), Acc(0), Acc(0)}; }
  KILN_DEVICE State wide_identity() const { return identity(); }
  KILN_DEVICE State element(Acc x, tl::int32_t) const { return {Acc(1), x, Acc(0)}; }
  KILN_DEVICE State combine(const State& x, const State& y) const {
    const Acc count = x.first + y.first;
    // Exact where a side is empty: the other one's mean stays what it is.
    const Acc share = x.first == Acc(0) ? Acc(1) : y.first * reciprocal_of_count(count);
    const Acc distance = y.second - x.second;
    // In this order no product overflows that an empty side makes 0.
    return {count, x.second + distance * share, x.third + y.third + distance * (distance * (x.first * share))};
  }

  template <int kCount>
  KILN_DEVICE Run start(const Acc (&x)[kCount]) const {
    return add(Run{x[0], Acc(0), Acc(0)}, x, Acc(0));
  }
  /// To a run of `count` elements; the first of a run's adds nothing.
  template <int kCount>
  KILN_DEVICE Run add(Run run, const Acc (&x)[kCount], Acc count) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const Acc share = reciprocal_of_count(count + static_cast<Acc>(i + 1));  // the same in all lanes: once per tile
      const Acc offset = x[i] - run.first;
      const Acc distance = offset - run.second;
      run.second = tl::scalar::fma(distance, share, run.second);
      run.third = tl::scalar::fma(distance, offset - run.second, run.third);
    }
    return run;
  }
  KILN_DEVICE State finish(const Run& run, Acc count, Acc pivot) const {
    return {count, (run.first - pivot) + run.second, run.third};
  }
  KILN_DEVICE State widen(const State& state, tl::int64_t) const { return state; }
  KILN_DEVICE auto finalize(const State& state) const {
    // An infinite element leaves an infinite mean, and NaN for the variance however the sets were joined.
    const Acc variance = (state.third + (state.second - state.second)) / static_cast<Acc>(scalars.divisor);
    return tl::Tuple{kSquareRoot ? tl::scalar::sqrt_rn(variance) : variance};
  }
};

/// The largest element m, and the sum of exp(x - m). The first m is the lowest finite number: with -inf, the difference
/// of two infinite ones would be NaN. Where m is +inf the sum is meaningless and not looked at; NaN reaches m.
template <typename Acc>
struct LogSumExpReducer {
  using Accumulator = Acc;
  using State = tl::Tuple<Acc, Acc>;
  static constexpr bool kSymmetric = false, kRunIsState = true, kShifts = false;
  static constexpr bool kHasNeutral = true, kNeutralIsZero = false;
  ReductionScalars scalars;

  KILN_DEVICE Acc neutral() const { return -static_cast<Acc>(INFINITY); }
  KILN_DEVICE static Acc power(Acc x) {
    if constexpr (sizeof(Acc) == 4)
      return exp2_of_difference(x * 1.44269504088896340736f);
    else
      return tl::scalar::exp_precise(x);
  }
  KILN_DEVICE State identity() const {
    if constexpr (sizeof(Acc) == 4)
      return {__builtin_bit_cast(float, 0xff7fffffu), Acc(0)};
    else
      return {__builtin_bit_cast(double, 0xffefffffffffffffull), Acc(0)};
  }
  KILN_DEVICE State wide_identity() const { return identity(); }
  KILN_DEVICE State element(Acc x, tl::int32_t) const {
    const Acc largest = more_extreme<true>(x, identity().first);
    return {largest, power(x - largest)};
  }
  KILN_DEVICE State combine(const State& x, const State& y) const {
    const Acc largest = more_extreme<true>(x.first, y.first);
    return {largest, x.second * power(x.first - largest) + y.second * power(y.first - largest)};
  }
  /// All of x at once: one exponential each and one for the sum so far.
  template <int kBlock, int kCount>
  KILN_DEVICE State add(const State& run, const Acc (&x)[kCount], tl::int32_t) const {
    Acc largest = run.first;
    KILN_UNROLL for (int i = 0; i < kCount; ++i) largest = more_extreme<true>(x[i], largest);
    Acc sum = run.second * power(run.first - largest);
    KILN_UNROLL for (int i = 0; i < kCount; ++i) sum = sum + power(x[i] - largest);
    return {largest, sum};
  }
  KILN_DEVICE State widen(const State& state, tl::int64_t) const { return state; }
  KILN_DEVICE auto finalize(const State& state) const {
    const bool infinite = state.first == static_cast<Acc>(INFINITY);
    return tl::Tuple{infinite ? state.first : state.first + tl::scalar::log(state.second)};
  }
};

}  // namespace kiln::ops
