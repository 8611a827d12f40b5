#pragma once

#include "ops/normalization/kernel_tiles.hpp"

namespace kiln::ops {

/// What a norm kernel does, fixed when it is compiled. kCentered: layer_norm; otherwise rms_norm.
template <bool kCentered_, bool kHasResidual_, bool kHasWeight_, bool kHasBias_>
struct NormForm {
  static constexpr bool kCentered = kCentered_, kHasResidual = kHasResidual_, kHasWeight = kHasWeight_,
                        kHasBias = kHasBias_;
};

/// The tensors of a call; null where the form has none. T is x's dtype, W that of weight and bias.
template <typename T, typename W>
struct NormTensors {
  T* out;
  T* residual_out;
  const T* x;
  const T* residual;
  const W* weight;
  const W* bias;
};

/// x, or x + residual rounded to T; 0 where there is no element.
template <typename Form, bool kWhole = false, typename T, typename W, typename Tiles>
KILN_DEVICE auto load_summed(const Tiles& tiles, const NormTensors<T, W>& tensors, tl::int64_t first) {
  const auto mask = tiles.template mask<kWhole>(first);
  const auto x = tl::load(tensors.x + tiles.offsets(kNormIn, first), mask);
  if constexpr (Form::kHasResidual)
    return x + tl::load(tensors.residual + tiles.offsets(kNormResidual, first), mask);
  else
    return x;
}

/// The value where the mask holds, else 0. A full tile takes one test.
template <typename Mask, typename Value>
KILN_DEVICE Value masked(const Mask& mask, const Value& value) {
  if constexpr (tl::is_same<Mask, bool>)
    return value;
  else
    return mask.all() ? value : tl::where(mask, value, typename Value::value_type{});
}

/// What a row's statistics are taken of: x itself, or for layer_norm its distance from the row's first element, so that
/// neither a mean far from 0 nor a constant row costs precision. Masked elements are 0.
template <typename Form, typename Compute, typename X, typename Shift, typename Mask>
KILN_DEVICE auto shifted(const X& x, const Shift& shift, const Mask& mask) {
  if constexpr (Form::kCentered)
    return masked(mask, tl::cast<Compute>(x) - shift);
  else
    return tl::cast<Compute>(x);
}

/// The first element of every row, over a whole tile.
template <typename Form, typename Compute, typename T, typename W, typename Tiles>
KILN_DEVICE auto row_shift(const Tiles& tiles, const NormTensors<T, W>& tensors) {
  if constexpr (!Form::kCentered) {
    return Compute{};
  } else if constexpr (Tiles::kKept == 1) {
    Compute shift = tl::cast<Compute>(
        tl::load(tensors.x + tiles.base[kNormIn] + tiles.first_kept * tiles.iteration.kept_strides[kNormIn]));
    return shift;
  } else {
    const auto offsets = tl::broadcast_to<Tiles::Shape::kRows, Tiles::Shape::kColumns>(
        tiles.base[kNormIn] + tiles.kept() * tiles.iteration.kept_strides[kNormIn]);
    return tl::cast<Compute>(tl::load(tensors.x + offsets, tiles.kept() < tiles.iteration.kept));
  }
}

/// Every row's total of a tile, or totals of a Tuple of tiles: broadcastable to the tile, and a number where it has one
/// row, so that what follows is compiled once rather than for each register.
template <int kAxis, typename Tiles, typename Values, typename Combine>
KILN_DEVICE auto row_totals(const Values& values, Combine combine) {
  if constexpr (Tiles::kKept == 1)
    return tl::reduce(values, combine);
  else
    return tl::map_parts([](const auto& totals) { return tl::expand_dims<kAxis>(totals); },
                         tl::reduce<kAxis>(values, combine));
}

/// A row's mean as the sum of two numbers, out of its first element and of how far the mean is from that: x - high -
/// low is right to the last place near the mean, where x - shift - mean would have the rounding errors of an outlier's
/// distance. (Knuth's sum of two numbers, The Art of Computer Programming, volume 2, 4.2.2.)
template <typename Sum>
struct SplitMean {
  Sum high, low;

  template <typename Shift, typename Mean>
  KILN_DEVICE SplitMean(const Shift& shift, const Mean& mean) : high(mean + shift) {
    const auto added = high - shift;
    low = (shift - (high - added)) + (mean - added);
  }
  template <typename X>
  KILN_DEVICE auto distance_of(const X& x) const {
    return x - high - low;
  }
};

/// 1 / sqrt(square_sum / n + eps), of a number or a tile. A variance that overflows makes its row NaN rather than zeros
/// that look like a result: inf - inf. A branch instead would keep a tile's equal registers from being computed once.
template <typename Form, typename SquareSum, typename Compute>
KILN_DEVICE auto inverse_deviation(const SquareSum& square_sum, Compute inverse_n, Compute eps) {
  if constexpr (Form::kCentered)
    return tl::rsqrt(square_sum * inverse_n + ((square_sum - square_sum) + eps));
  else
    return tl::rsqrt(square_sum * inverse_n + eps);
}

/// Sums of shifted values and of their squares, side by side.
struct MomentSums {
  static constexpr bool kSymmetric = true;
  template <typename Sums>
  KILN_DEVICE Sums operator()(const Sums& x, const Sums& y) const {
    return {x.first + y.first, x.second + y.second};
  }
};

/// Whether mean and variance of n values of type T come from one reduction, of the distances from the row's first
/// element and of their squares. That element being one of the row's, the square of its distance from the mean is at
/// most n times the variance: cancellation costs the variance about n / 2^22 of itself where the row is one outlier,
/// its first element, and nothing elsewhere. Up to this n that is half a unit in the last place of an f16 result. Two
/// reductions, of which the second centers on the mean, make the warps wait for one another twice.
template <typename T>
constexpr bool takes_moments_together(int n) {
  return sizeof(T) <= 2 && n <= 4096;
}

/// Whether what a mean is off by, the mean of the distances from it, is taken from these: a sum of distances from an
/// outlier is right to some units in the last place of that distance, of which results of 16 bits show nothing.
template <typename T>
constexpr bool corrects_mean() {
  return sizeof(T) > 2;
}

/// Weights and writes one tile. `x` is what load_summed gave. The weight is multiplied in before the bias is read,
/// rather than fused with it: the registers that hold both would be those of two programs in eight of a processor.
template <typename Form, bool kWhole = false, typename T, typename W, typename Tiles, typename X, typename Values>
KILN_DEVICE void write_normalized(const Tiles& tiles, const NormTensors<T, W>& tensors, tl::int64_t first, const X& x,
                                  Values result) {
  using Compute = tl::compute_t<T>;
  const auto mask = tiles.template mask<kWhole>(first);
  if constexpr (Form::kHasWeight)
    result = result * tl::cast<Compute>(tl::load(tensors.weight + tiles.shared_offsets(kNormWeight, first), mask));
  if constexpr (Form::kHasBias)
    result = result + tl::cast<Compute>(tl::load(tensors.bias + tiles.shared_offsets(kNormBias, first), mask));
  // Everything is read before anything is written: outputs may be inputs.
  if constexpr (Form::kHasResidual) tl::store(tensors.residual_out + tiles.offsets(kNormResidualOut, first), x, mask);
  tl::store(tensors.out + tiles.offsets(kNormOut, first), result, mask);
}

/// The row in registers: kTiles tiles hold it all.
template <typename Form, typename T, typename W, int kAxis, int kColumns, int BLOCK_M, int BLOCK_N, int kTiles>
KILN_KERNEL void norm_one_pass_kernel(T* out, T* residual_out, const T* x_in, const T* residual, const W* weight,
                                      const W* bias, RowIteration<kNormOperands> iteration, double inverse_n,
                                      double eps) {
  using Compute = tl::compute_t<T>;
  using Tiles = RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kNormOperands>;
  using Shape = typename Tiles::Shape;
  using Values = tl::Tile<Compute, Shape>;
  const Tiles tiles(iteration, tl::program_id(0), kNormOut, out);
  const NormTensors<T, W> tensors{out, residual_out, x_in, residual, weight, bias};
  const Compute factor = static_cast<Compute>(inverse_n), epsilon = static_cast<Compute>(eps);
  tl::Tile<T, Shape> x[kTiles];
  const auto shift = row_shift<Form, Compute>(tiles, tensors);
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) x[t] = load_summed<Form>(tiles, tensors, t * Tiles::kReduced);
  Values deviations[kTiles];
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) deviations[t] =
      shifted<Form, Compute>(x[t], shift, tiles.mask(t * Tiles::kReduced));
  const auto write = [&](auto normalize) {
    KILN_UNROLL for (int t = 0; t < kTiles; ++t)
        write_normalized<Form>(tiles, tensors, t * Tiles::kReduced, x[t], normalize(deviations[t]));
  };
  const auto sum_of = [&](auto part) {
    Values sums = part(deviations[0]);
    KILN_UNROLL for (int t = 1; t < kTiles; ++t) sums = sums + part(deviations[t]);
    return sums;
  };
  const auto itself = [](const Values& values) { return values; };
  const auto squared = [](const Values& values) { return values * values; };
  if constexpr (Form::kCentered && takes_moments_together<T>(kTiles * Tiles::kReduced)) {
    const auto totals = row_totals<kAxis, Tiles>(tl::Tuple{sum_of(itself), sum_of(squared)}, MomentSums{});
    const auto mean = totals.first * factor;
    const auto scale = inverse_deviation<Form>(totals.second - totals.first * mean, factor, epsilon);
    const auto offset = -(mean * scale);
    write([&](const Values& values) { return values * scale + offset; });
  } else {
    if constexpr (Form::kCentered) {
      const auto mean = row_totals<kAxis, Tiles>(sum_of(itself), tl::SumOp{}) * factor;
      const SplitMean<decltype(mean + shift)> split(shift, mean);
      KILN_UNROLL for (int t = 0; t < kTiles; ++t) deviations[t] =
          masked(tiles.mask(t * Tiles::kReduced), split.distance_of(tl::cast<Compute>(x[t])));
    }
    if constexpr (Form::kCentered && corrects_mean<T>()) {
      const auto totals = row_totals<kAxis, Tiles>(tl::Tuple{sum_of(itself), sum_of(squared)}, MomentSums{});
      const auto rest = totals.first * factor;
      const auto scale = inverse_deviation<Form>(totals.second - totals.first * rest, factor, epsilon);
      write([&](const Values& values) { return (values - rest) * scale; });
    } else {
      const auto squares = row_totals<kAxis, Tiles>(sum_of(squared), tl::SumOp{});
      const auto scale = inverse_deviation<Form>(squares, factor, epsilon);
      write([&](const Values& values) { return values * scale; });
    }
  }
}

/// visit<kWhole>(first index, tiles of the step) for the steps of a row, segment by segment.
template <int kTiles, bool kSegmented, typename Form, typename T, typename W, typename Tiles, typename Visit>
KILN_DEVICE void for_each_step(Tiles& tiles, const NormTensors<T, W>& tensors, Visit visit) {
  const auto visit_segment = [&] {
    tiles.template for_each_step<kTiles>(0, tiles.end(), [&]<bool kWhole>(tl::int64_t start) {
      tl::Tile<T, typename Tiles::Shape> x[kTiles];
      KILN_UNROLL for (int t = 0; t < kTiles; ++t) x[t] =
          load_summed<Form, kWhole>(tiles, tensors, start + t * Tiles::kReduced);
      visit.template operator()<kWhole>(start, x);
    });
  };
  if constexpr (kSegmented) {
    KILN_NO_UNROLL for (tl::int64_t segment = 0; segment < tiles.iteration.segments; ++segment) {
      tiles.shift_by_segment(segment, 1);
      visit_segment();
      tiles.shift_by_segment(segment, -1);
    }
  } else {
    visit_segment();
  }
}

/// A sum of many tiles, register by register. With few lanes along a row each adds up a large part of it, so what is
/// rounded away is kept and added too (Kahan, Communications of the ACM 8(1), 1965).
template <typename Values, bool kCompensated>
struct RunningSum {
  Values sum{}, lost{};

  KILN_DEVICE void add(const Values& values) {
    if constexpr (kCompensated) {
      const Values corrected = values - lost, next = sum + corrected;
      const Values rounded = (next - sum) - corrected;
      lost = tl::where(rounded == rounded, rounded, typename Values::value_type{});  // inf - inf is nothing lost
      sum = next;
    } else {
      sum = sum + values;
    }
  }
};

/// Longer rows, and rows whose elements lie in segments: mean, variance and result in a reading each. A running
/// variance would save one; it divides for every element, and rows this long are rare.
template <typename Form, typename T, typename W, int kAxis, int kColumns, int BLOCK_M, int BLOCK_N, int kTiles,
          bool kSegmented>
KILN_KERNEL void norm_looped_kernel(T* out, T* residual_out, const T* x_in, const T* residual, const W* weight,
                                    const W* bias, RowIteration<kNormOperands> iteration, double inverse_n,
                                    double eps) {
  using Compute = tl::compute_t<T>;
  using Tiles = RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kNormOperands>;
  using Shape = typename Tiles::Shape;
  using Values = tl::Tile<Compute, Shape>;
  Tiles tiles(iteration, tl::program_id(0), kNormOut, out);
  const NormTensors<T, W> tensors{out, residual_out, x_in, residual, weight, bias};
  constexpr bool kCompensated = Tiles::kReduced < 32;
  const auto shift = row_shift<Form, Compute>(tiles, tensors);
  Values mean = tl::full_of<Compute, Shape>(Compute{});
  if constexpr (Form::kCentered) {
    RunningSum<Values, kCompensated> sums;
    for_each_step<kTiles, kSegmented, Form>(tiles, tensors, [&]<bool kWhole>(tl::int64_t start, const auto& x) {
      KILN_UNROLL for (int t = 0; t < kTiles; ++t)
          sums.add(shifted<Form, Compute>(x[t], shift, tiles.template mask<kWhole>(start + t * Tiles::kReduced)));
    });
    mean = tl::broadcast_to_shape<Shape>(
        tl::expand_dims<kAxis>(tl::sum<kAxis>(sums.sum) * static_cast<Compute>(inverse_n)));
  }
  SplitMean<Values> split(shift, mean);
  const auto deviation = [&]<bool kWhole>(const auto& x, tl::int64_t first) -> Values {
    if constexpr (Form::kCentered)
      return masked(tiles.template mask<kWhole>(first), split.distance_of(tl::cast<Compute>(x)));
    else
      return tl::cast<Compute>(x);
  };
  RunningSum<Values, kCompensated> squares;
  [[maybe_unused]] Values rests = tl::full_of<Compute, Shape>(Compute{});  // so small that none of them is lost
  for_each_step<kTiles, kSegmented, Form>(tiles, tensors, [&]<bool kWhole>(tl::int64_t start, const auto& x) {
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
      const Values d = deviation.template operator()<kWhole>(x[t], start + t * Tiles::kReduced);
      squares.add(d * d);
      if constexpr (Form::kCentered && corrects_mean<T>()) rests = rests + d;
    }
  });
  auto square_sum = tl::sum<kAxis>(squares.sum);
  if constexpr (Form::kCentered && corrects_mean<T>()) {
    const auto total = tl::sum<kAxis>(rests), off = total * static_cast<Compute>(inverse_n);
    square_sum = square_sum - total * off;
    split.low = split.low + tl::broadcast_to_shape<Shape>(tl::expand_dims<kAxis>(off));
  }
  const Values inverse = tl::broadcast_to_shape<Shape>(tl::expand_dims<kAxis>(
      inverse_deviation<Form>(square_sum, static_cast<Compute>(inverse_n), static_cast<Compute>(eps))));
  for_each_step<kTiles, kSegmented, Form>(tiles, tensors, [&]<bool kWhole>(tl::int64_t start, const auto& x) {
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
      const tl::int64_t first = start + t * Tiles::kReduced;
      write_normalized<Form, kWhole>(tiles, tensors, first, x[t],
                                     deviation.template operator()<kWhole>(x[t], first) * inverse);
    }
  });
}

}  // namespace kiln::ops
