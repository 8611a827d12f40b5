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
    const auto offsets =
        tiles.base[kNormIn] + tiles.kept() * tiles.iteration.kept_strides[kNormIn] + Tiles::reduced(0) * 0;
    return tl::cast<Compute>(tl::load(tensors.x + offsets, tiles.kept() < tiles.iteration.kept));
  }
}

/// 1 / sqrt(square_sum / n + eps), with 1 / n from the host. A variance that overflows makes its row NaN rather than
/// zeros that look like a result.
template <typename Form, typename SquareSum>
KILN_DEVICE auto inverse_deviation(const SquareSum& square_sum, double inverse_n, double eps) {
  using Compute = typename SquareSum::value_type;
  const Compute factor = static_cast<Compute>(inverse_n), epsilon = static_cast<Compute>(eps);
  return tl::map_elementwise(
      [=](Compute sum) {
        if constexpr (Form::kCentered)
          if (sum == static_cast<Compute>(INFINITY)) return static_cast<Compute>(NAN);
        return tl::rsqrt(sum * factor + epsilon);
      },
      square_sum);
}

/// Scales, weights and writes one tile. `x` is what load_summed gave, `deviation` the distance from the mean.
template <typename Form, bool kWhole = false, typename T, typename W, typename Tiles, typename X, typename Deviation,
          typename Inverse>
KILN_DEVICE void write_normalized(const Tiles& tiles, const NormTensors<T, W>& tensors, tl::int64_t first, const X& x,
                                  const Deviation& deviation, const Inverse& inverse) {
  using Compute = tl::compute_t<T>;
  const auto mask = tiles.template mask<kWhole>(first);
  const auto out = tensors.out + tiles.offsets(kNormOut, first);
  const auto normalized = deviation * inverse;
  // Everything is read before anything is written: outputs may be inputs.
  const auto finish = [&](const auto& result) {
    if constexpr (Form::kHasResidual) tl::store(tensors.residual_out + tiles.offsets(kNormResidualOut, first), x, mask);
    tl::store(out, result, mask);
  };
  if constexpr (Form::kHasWeight) {
    const auto weight = tl::cast<Compute>(tl::load(tensors.weight + tiles.shared_offsets(kNormWeight, first), mask));
    if constexpr (Form::kHasBias) {
      const auto bias = tl::cast<Compute>(tl::load(tensors.bias + tiles.shared_offsets(kNormBias, first), mask));
      finish(tl::fma(normalized, weight, bias));
    } else {
      finish(normalized * weight);
    }
  } else {
    finish(normalized);
  }
}

/// The row in registers: kTiles tiles hold it all.
template <typename Form, typename T, typename W, int kAxis, bool kDense, int BLOCK_M, int BLOCK_N, int kTiles>
KILN_KERNEL void norm_one_pass_kernel(T* out, T* residual_out, const T* x_in, const T* residual, const W* weight,
                                      const W* bias, RowIteration<kNormOperands> iteration, double inverse_n,
                                      double eps) {
  using Compute = tl::compute_t<T>;
  using Tiles = RowTiles<kAxis, kDense, BLOCK_M, BLOCK_N, kNormOperands>;
  using Shape = typename Tiles::Shape;
  const Tiles tiles(iteration, tl::program_id(0));
  const NormTensors<T, W> tensors{out, residual_out, x_in, residual, weight, bias};
  tl::Tile<T, Shape> x[kTiles];
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) x[t] = load_summed<Form>(tiles, tensors, t * Tiles::kReduced);
  const auto shift = row_shift<Form, Compute>(tiles, tensors);
  tl::Tile<Compute, Shape> deviations[kTiles];
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) deviations[t] =
      shifted<Form, Compute>(x[t], shift, tiles.mask(t * Tiles::kReduced));
  if constexpr (Form::kCentered) {
    auto sums = deviations[0];
    KILN_UNROLL for (int t = 1; t < kTiles; ++t) sums = sums + deviations[t];
    const auto mean = tl::expand_dims<kAxis>(tl::sum<kAxis>(sums) * static_cast<Compute>(inverse_n));
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) deviations[t] =
        masked(tiles.mask(t * Tiles::kReduced), deviations[t] - mean);
  }
  auto squares = deviations[0] * deviations[0];
  KILN_UNROLL for (int t = 1; t < kTiles; ++t) squares = squares + deviations[t] * deviations[t];
  const auto inverse = tl::expand_dims<kAxis>(inverse_deviation<Form>(tl::sum<kAxis>(squares), inverse_n, eps));
  KILN_UNROLL for (int t = 0; t < kTiles; ++t)
      write_normalized<Form>(tiles, tensors, t * Tiles::kReduced, x[t], deviations[t], inverse);
}

/// visit<kWhole>(first index, tiles of the step) for the steps of a row, segment by segment.
template <int kTiles, bool kSegmented, typename Form, typename T, typename W, typename Tiles, typename Visit>
KILN_DEVICE void for_each_step(Tiles& tiles, const NormTensors<T, W>& tensors, Visit visit) {
  const auto visit_segment = [&] {
    tiles.template for_each_step<kTiles>(0, tiles.iteration.reduced, [&]<bool kWhole>(tl::int64_t start) {
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

/// Longer rows, and rows whose elements lie in segments: mean, variance and result in a reading each. A running
/// variance would save one; it divides for every element, and rows this long are rare.
template <typename Form, typename T, typename W, int kAxis, bool kDense, int BLOCK_M, int BLOCK_N, int kTiles,
          bool kSegmented>
KILN_KERNEL void norm_looped_kernel(T* out, T* residual_out, const T* x_in, const T* residual, const W* weight,
                                    const W* bias, RowIteration<kNormOperands> iteration, double inverse_n,
                                    double eps) {
  using Compute = tl::compute_t<T>;
  using Tiles = RowTiles<kAxis, kDense, BLOCK_M, BLOCK_N, kNormOperands>;
  using Shape = typename Tiles::Shape;
  using Values = tl::Tile<Compute, Shape>;
  Tiles tiles(iteration, tl::program_id(0));
  const NormTensors<T, W> tensors{out, residual_out, x_in, residual, weight, bias};
  const auto shift = row_shift<Form, Compute>(tiles, tensors);
  Values mean = tl::full_of<Compute, Shape>(Compute{});
  if constexpr (Form::kCentered) {
    Values sums = mean;
    for_each_step<kTiles, kSegmented, Form>(tiles, tensors, [&]<bool kWhole>(tl::int64_t start, const auto& x) {
      KILN_UNROLL for (int t = 0; t < kTiles; ++t) sums =
          sums + shifted<Form, Compute>(x[t], shift, tiles.template mask<kWhole>(start + t * Tiles::kReduced));
    });
    mean =
        tl::broadcast_to_shape<Shape>(tl::expand_dims<kAxis>(tl::sum<kAxis>(sums) * static_cast<Compute>(inverse_n)));
  }
  const auto deviation = [&]<bool kWhole>(const auto& x, tl::int64_t first) -> Values {
    if constexpr (Form::kCentered)
      return masked(tiles.template mask<kWhole>(first), tl::cast<Compute>(x) - shift - mean);
    else
      return tl::cast<Compute>(x);
  };
  Values squares = tl::full_of<Compute, Shape>(Compute{});
  for_each_step<kTiles, kSegmented, Form>(tiles, tensors, [&]<bool kWhole>(tl::int64_t start, const auto& x) {
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
      const Values d = deviation.template operator()<kWhole>(x[t], start + t * Tiles::kReduced);
      squares = squares + d * d;
    }
  });
  const Values inverse = tl::broadcast_to_shape<Shape>(
      tl::expand_dims<kAxis>(inverse_deviation<Form>(tl::sum<kAxis>(squares), inverse_n, eps)));
  for_each_step<kTiles, kSegmented, Form>(tiles, tensors, [&]<bool kWhole>(tl::int64_t start, const auto& x) {
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
      const tl::int64_t first = start + t * Tiles::kReduced;
      write_normalized<Form, kWhole>(tiles, tensors, first, x[t], deviation.template operator()<kWhole>(x[t], first),
                                     inverse);
    }
  });
}

}  // namespace kiln::ops
