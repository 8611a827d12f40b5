#pragma once

#include "ops/normalization/kernel_tiles.hpp"

namespace kiln::ops {

// A NaN in a row reaches its sum of exponentials and so every result; the maximum need not carry it, which saves two of
// three instructions. The maximum is subtracted before the factor log2(e) comes in: the other way round, rows near the
// largest float would overflow.

/// The larger of two numbers; of a NaN and a number, either.
struct Larger {
  static constexpr bool kSymmetric = true;
  template <tl::Floating T>
  KILN_DEVICE T operator()(T x, T y) const {
#if defined(KILN_TARGET_CUDA)
    if constexpr (tl::is_same<T, float>) return ::fmaxf(x, y);
#endif
    return x > y ? x : y;
  }
};

/// exp(x - top), x <= top. On a GPU what is below 2^-126 becomes 0, beside a sum that is at least 1.
struct ExpOfDifference {
  template <tl::Floating T>
  KILN_DEVICE T operator()(T x, T top) const {
#if defined(KILN_TARGET_CUDA)
    if constexpr (tl::is_same<T, float>) return tl::scalar::exp2_approximate((x - top) * 1.4426950408889634f);
#endif
    return tl::exp_precise(x - top);
  }
};

/// exp(x - top) / total, or its logarithm, from `scale` = 1 / total or log(total).
template <bool kLog, typename X, typename Top, typename Scale>
KILN_DEVICE auto softmax_result(const X& x, const Top& top, const Scale& scale) {
  if constexpr (kLog)
    return (x - top) - scale;
  else
    return tl::map_elementwise(ExpOfDifference{}, x, top) * scale;
}
template <bool kLog, typename Total>
KILN_DEVICE auto softmax_scale(const Total& total) {
  using T = typename Total::value_type;
  if constexpr (kLog)
    return tl::log(total);
  else
    return tl::map_elementwise([](T x) { return T{1} / x; }, total);
}

/// A tile of the input as the op computes with it: rounded to Out, as torch's `dtype` asks, then widened; -inf where
/// there is no element.
template <typename Out, bool kWhole = false, typename In, typename Tiles>
KILN_DEVICE auto load_logits(const Tiles& tiles, const In* in, tl::int64_t first) {
  using Compute = tl::compute_t<Out>;
  const auto mask = tiles.template mask<kWhole>(first);
  const auto x = tl::cast<Compute>(tl::cast<Out>(tl::load(in + tiles.offsets(kSoftmaxIn, first), mask, -INFINITY)));
  constexpr bool kHasInfinity = !tl::is_same<In, tl::float8e4m3> && !tl::is_same<Out, tl::float8e4m3>;
  if constexpr (!kHasInfinity && !tl::is_same<decltype(mask), const bool>)
    return tl::where(mask, x, -static_cast<Compute>(INFINITY));
  else
    return x;
}

/// A row's maximum, and its sum of exp(x - maximum).
template <typename Maximum, typename Total>
struct SoftmaxStatistics {
  Maximum maximum;
  Total total;
};
template <typename Maximum, typename Total>
SoftmaxStatistics(Maximum, Total) -> SoftmaxStatistics<Maximum, Total>;

/// Of partial statistics along kAxis: those of the whole.
template <int kAxis, typename T>
KILN_DEVICE auto combine_statistics(const T& maxima, const T& totals) {
  const auto maximum = tl::reduce<kAxis>(maxima, Larger{});
  const auto total =
      tl::sum<kAxis>(totals * tl::map_elementwise(ExpOfDifference{}, maxima, tl::expand_dims<kAxis>(maximum)));
  return SoftmaxStatistics{maximum, total};
}

/// Statistics of places begin to end - 1 in one reading: every register keeps a maximum and a sum of its own,
/// which a larger maximum rescales, once for kTiles elements.
template <typename Out, int kAxis, int kTiles, typename In, typename Tiles>
KILN_DEVICE auto online_statistics(const Tiles& tiles, const In* in, tl::int64_t begin, tl::int64_t end) {
  using Compute = tl::compute_t<Out>;
  // Finite, so that rows that start with -inf stay free of inf - inf.
  constexpr Compute kLowest = tl::is_same<Compute, float> ? static_cast<Compute>(-3.4028234663852886e38)
                                                          : static_cast<Compute>(-1.7976931348623157e308);
  auto maxima = tl::full_of<Compute, typename Tiles::Shape>(kLowest);
  auto totals = tl::full_of<Compute, typename Tiles::Shape>(Compute{});
  tiles.template for_each_step<kTiles>(begin, end, [&]<bool kWhole>(tl::int64_t start) {
    decltype(maxima) x[kTiles];
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) x[t] =
        load_logits<Out, kWhole>(tiles, in, start + t * Tiles::kReduced);
    auto larger = maxima;
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) larger = tl::map_elementwise(Larger{}, larger, x[t]);
    totals = totals * tl::map_elementwise(ExpOfDifference{}, maxima, larger);
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) totals = totals + tl::map_elementwise(ExpOfDifference{}, x[t], larger);
    maxima = larger;
  });
  return combine_statistics<kAxis>(maxima, totals);
}

/// Writes places begin to end - 1, last tiles first: they are what the cache still holds.
template <typename Out, int kAxis, bool kLog, int kTiles, typename In, typename Tiles, typename Statistics>
KILN_DEVICE void write_softmax(const Tiles& tiles, Out* out, const In* in, tl::int64_t begin, tl::int64_t end,
                               const Statistics& statistics) {
  const auto top = tl::broadcast_to_shape<typename Tiles::Shape>(tl::expand_dims<kAxis>(statistics.maximum));
  const auto scale =
      tl::broadcast_to_shape<typename Tiles::Shape>(tl::expand_dims<kAxis>(softmax_scale<kLog>(statistics.total)));
  tiles.template for_each_step<kTiles, true>(begin, end, [&]<bool kWhole>(tl::int64_t start) {
    tl::remove_cvref_t<decltype(top)> x[kTiles];
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) x[t] =
        load_logits<Out, kWhole>(tiles, in, start + t * Tiles::kReduced);
    KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
      const tl::int64_t first = start + t * Tiles::kReduced;
      tl::store(out + tiles.offsets(kSoftmaxOut, first), softmax_result<kLog>(x[t], top, scale),
                tiles.template mask<kWhole>(first));
    }
  });
}

/// The row in registers: kTiles tiles hold it all.
template <typename Out, typename In, int kAxis, int kColumns, bool kLog, int BLOCK_M, int BLOCK_N, int kTiles>
KILN_KERNEL void softmax_one_pass_kernel(Out* out, const In* in, RowIteration<kSoftmaxOperands> iteration) {
  using Compute = tl::compute_t<Out>;
  using Tiles = RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kSoftmaxOperands>;
  const Tiles tiles(iteration, tl::program_id(0), kSoftmaxOut, out);
  tl::Tile<Compute, typename Tiles::Shape> x[kTiles];
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) x[t] = load_logits<Out>(tiles, in, t * Tiles::kReduced);
  auto larger = x[0];
  KILN_UNROLL for (int t = 1; t < kTiles; ++t) larger = tl::map_elementwise(Larger{}, larger, x[t]);
  const auto top = tl::expand_dims<kAxis>(tl::reduce<kAxis>(larger, Larger{}));
  auto totals = tl::map_elementwise(ExpOfDifference{}, x[0], top);
  if constexpr (!kLog) x[0] = totals;
  KILN_UNROLL for (int t = 1; t < kTiles; ++t) {
    const auto e = tl::map_elementwise(ExpOfDifference{}, x[t], top);
    totals = totals + e;
    if constexpr (!kLog) x[t] = e;
  }
  const auto scale = tl::expand_dims<kAxis>(softmax_scale<kLog>(tl::sum<kAxis>(totals)));
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
    const tl::int64_t first = t * Tiles::kReduced;
    const auto pointers = out + tiles.offsets(kSoftmaxOut, first);
    if constexpr (kLog)
      tl::store(pointers, (x[t] - top) - scale, tiles.mask(first));
    else
      tl::store(pointers, x[t] * scale, tiles.mask(first));
  }
}

/// Keeps the compiler from knowing a tile of 16-bit values to be what it was, so that it converts them anew instead of
/// holding them in 32 bits as well.
template <typename T, typename S>
KILN_DEVICE void forget_conversions(tl::Tile<T, S>& x) {
#if defined(KILN_TARGET_CUDA)
  static_assert(sizeof(T) == 2 && tl::Tile<T, S>::kRegisters % 2 == 0);
  KILN_UNROLL for (int r = 0; r < x.kRegisters; r += 2) {
    tl::uint32_t pair;
    memcpy(&pair, &x.registers[r], sizeof(pair));
    asm volatile("" : "+r"(pair));
    memcpy(&x.registers[r], &pair, sizeof(pair));
  }
#endif
}

/// The same for rows of 16-bit values too long to lie in registers as floats, or not twice on a processor: they stay
/// packed, and each exponential is computed twice.
template <typename T, int kAxis, int kColumns, bool kLog, int BLOCK_M, int BLOCK_N, int kTiles>
KILN_KERNEL void softmax_packed_kernel(T* out, const T* in, RowIteration<kSoftmaxOperands> iteration) {
  using Tiles = RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kSoftmaxOperands>;
  using Values = tl::Tile<float, typename Tiles::Shape>;
  const Tiles tiles(iteration, tl::program_id(0), kSoftmaxOut, out);
  tl::Tile<T, typename Tiles::Shape> x[kTiles];
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
    const tl::int64_t first = t * Tiles::kReduced;
    x[t] = tl::load(in + tiles.offsets(kSoftmaxIn, first), tiles.mask(first), -INFINITY);
  }
  Values larger = tl::cast<float>(x[0]);
  KILN_UNROLL for (int t = 1; t < kTiles; ++t) larger = tl::map_elementwise(Larger{}, larger, tl::cast<float>(x[t]));
  const auto top = tl::expand_dims<kAxis>(tl::reduce<kAxis>(larger, Larger{}));
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) forget_conversions(x[t]);
  Values totals = tl::map_elementwise(ExpOfDifference{}, tl::cast<float>(x[0]), top);
  KILN_UNROLL for (int t = 1; t < kTiles; ++t) totals =
      totals + tl::map_elementwise(ExpOfDifference{}, tl::cast<float>(x[t]), top);
  const auto scale = tl::expand_dims<kAxis>(softmax_scale<kLog>(tl::sum<kAxis>(totals)));
  KILN_UNROLL for (int t = 0; t < kTiles; ++t) {
    const tl::int64_t first = t * Tiles::kReduced;
    forget_conversions(x[t]);
    tl::store(out + tiles.offsets(kSoftmaxOut, first), softmax_result<kLog>(tl::cast<float>(x[t]), top, scale),
              tiles.mask(first));
  }
}

/// Longer rows: one reading for the statistics, one for the result.
template <typename Out, typename In, int kAxis, int kColumns, bool kLog, int BLOCK_M, int BLOCK_N, int kTiles>
KILN_KERNEL void softmax_online_kernel(Out* out, const In* in, RowIteration<kSoftmaxOperands> iteration) {
  const RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kSoftmaxOperands> tiles(iteration, tl::program_id(0), kSoftmaxOut,
                                                                            out);
  const auto statistics = online_statistics<Out, kAxis, kTiles>(tiles, in, 0, tiles.end());
  write_softmax<Out, kAxis, kLog, kTiles>(tiles, out, in, 0, tiles.end(), statistics);
}

// A row that many programs share: the first kernel leaves each program's statistics in a workspace, SPLIT of them side
// by side for every block of rows, the second combines them, which is little work, and writes.

/// A program's part of a split row that ends before place `end`: places first to end - 1.
struct RowChunk {
  tl::int64_t first, end;
};
template <int SPLIT>
KILN_DEVICE RowChunk chunk_of(tl::int64_t program, tl::int64_t chunk_size, tl::int64_t end) {
  const tl::int64_t first = program % SPLIT * chunk_size;
  return {first, first + chunk_size < end ? first + chunk_size : end};
}

template <typename Out, typename In, int kAxis, int kColumns, int BLOCK_M, int BLOCK_N, int kTiles, int SPLIT>
KILN_KERNEL void softmax_partial_kernel(tl::compute_t<Out>* maxima, tl::compute_t<Out>* totals, const In* in,
                                        RowIteration<kSoftmaxOperands> iteration, tl::int64_t chunk_size) {
  using Tiles = RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kSoftmaxOperands>;
  const Tiles tiles(iteration, tl::program_id(0) / SPLIT, kSoftmaxIn, in);
  const RowChunk part = chunk_of<SPLIT>(tl::program_id(0), chunk_size, tiles.end());
  const auto statistics = online_statistics<Out, kAxis, kTiles>(tiles, in, part.first, part.end);
  const auto offsets = tl::program_id(0) * Tiles::kKept + tl::arange<Tiles::kKept>();
  tl::store(maxima + offsets, statistics.maximum);
  tl::store(totals + offsets, statistics.total);
}

template <typename Out, typename In, int kAxis, int kColumns, bool kLog, int BLOCK_M, int BLOCK_N, int kTiles,
          int SPLIT>
KILN_KERNEL void softmax_combine_kernel(Out* out, const In* in, const tl::compute_t<Out>* maxima,
                                        const tl::compute_t<Out>* totals, RowIteration<kSoftmaxOperands> iteration,
                                        tl::int64_t chunk_size) {
  using Tiles = RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kSoftmaxOperands>;
  // Last rows first: the cache still holds what the first kernel read last.
  const tl::int64_t program = tl::num_programs(0) - 1 - tl::program_id(0), block = program / SPLIT;
  const Tiles tiles(iteration, block, kSoftmaxOut, out);
  const RowChunk part = chunk_of<SPLIT>(program, chunk_size, tiles.end());
  const auto offsets = block * (SPLIT * Tiles::kKept) + tl::expand_dims<kAxis>(tl::arange<Tiles::kKept>()) +
                       tl::expand_dims<1 - kAxis>(tl::arange<SPLIT>()) * Tiles::kKept;
  const auto statistics = combine_statistics<kAxis>(tl::load(maxima + offsets), tl::load(totals + offsets));
  write_softmax<Out, kAxis, kLog, kTiles>(tiles, out, in, part.first, part.end, statistics);
}

/// For a CPU, whose caches hold a row better than its registers do: maximum, sum, result, a small tile at a time. One
/// exponential for each element where the output can hold it between the passes.
template <typename Out, typename In, int kAxis, int kColumns, bool kLog, int BLOCK_M, int BLOCK_N>
KILN_KERNEL void softmax_three_pass_kernel(Out* out, const In* in, RowIteration<kSoftmaxOperands> iteration) {
  using Compute = tl::compute_t<Out>;
  using Tiles = RowTiles<kAxis, kColumns, BLOCK_M, BLOCK_N, kSoftmaxOperands>;
  constexpr bool kKeepsExponentials = !kLog && tl::is_same<Out, Compute>;
  const Tiles tiles(iteration, tl::program_id(0), kSoftmaxOut, out);
  auto maxima = tl::full_of<Compute, typename Tiles::Shape>(-static_cast<Compute>(INFINITY));
  tiles.template for_each_step<1>(0, tiles.end(), [&]<bool kWhole>(tl::int64_t first) {
    maxima = tl::map_elementwise(Larger{}, maxima, load_logits<Out, kWhole>(tiles, in, first));
  });
  const auto top =
      tl::broadcast_to_shape<typename Tiles::Shape>(tl::expand_dims<kAxis>(tl::reduce<kAxis>(maxima, Larger{})));

  auto totals = tl::full_of<Compute, typename Tiles::Shape>(Compute{});
  tiles.template for_each_step<1>(0, tiles.end(), [&]<bool kWhole>(tl::int64_t first) {
    const auto e = tl::map_elementwise(ExpOfDifference{}, load_logits<Out, kWhole>(tiles, in, first), top);
    totals = totals + e;
    if constexpr (kKeepsExponentials)
      tl::store(out + tiles.offsets(kSoftmaxOut, first), e, tiles.template mask<kWhole>(first));
  });

  const auto scale = tl::broadcast_to_shape<typename Tiles::Shape>(
      tl::expand_dims<kAxis>(softmax_scale<kLog>(tl::sum<kAxis>(totals))));
  tiles.template for_each_step<1>(0, tiles.end(), [&]<bool kWhole>(tl::int64_t first) {
    const auto mask = tiles.template mask<kWhole>(first);
    const auto pointers = out + tiles.offsets(kSoftmaxOut, first);
    if constexpr (kKeepsExponentials)
      tl::store(pointers, tl::load(pointers, mask) * scale, mask);
    else
      tl::store(pointers, softmax_result<kLog>(load_logits<Out, kWhole>(tiles, in, first), top, scale), mask);
  });
}

}  // namespace kiln::ops
