#pragma once

#include <kiln/tl.hpp>

#include "ops/random/functors.hpp"
#include "ops/random/iteration.hpp"

namespace kiln::ops {

/// The drawn elements themselves, or what the functor makes of them and of the input's.
template <typename Functor, typename Drawn, typename... X>
KILN_DEVICE auto finish_random(const Distribution& d, const Drawn& drawn, const X&... x) {
  if constexpr (sizeof...(X) == 0)
    return drawn;
  else
    return Functor::apply(d, drawn, x...);
}

/// The functor's elements first to first + BLOCK_SIZE - 1: functions of the keys and of their place alone.
template <typename Functor, int BLOCK_SIZE>
KILN_DEVICE auto draw_block(const RoundKeys& keys, const Distribution& d, tl::uint64_t first_counter,
                            tl::int64_t first) {
  const auto draw = [&d](const tl::PhiloxWords& words) { return Functor::draw(d, words); };
  constexpr int kElements = decltype(draw(tl::PhiloxWords{}))::kElements;
  return tl::draw_tile<BLOCK_SIZE>(keys, first_counter + static_cast<tl::uint64_t>(first) / kElements, draw);
}

/// Every operand is dense and row-major.
template <typename Functor, int BLOCK_SIZE, typename Out, typename... In>
KILN_KERNEL void random_contiguous_kernel(Out* out, tl::int64_t n, tl::uint64_t first_counter, const In*... in,
                                          RoundKeys keys, Distribution d) {
  const tl::int64_t first = tl::program_id(0) * BLOCK_SIZE;
  const auto offsets = first + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  const auto drawn = draw_block<Functor, BLOCK_SIZE>(keys, d, first_counter, first);
  tl::store(out + offsets, tl::cast<Out>(finish_random<Functor>(d, drawn, tl::load(in + offsets, mask)...)), mask);
}

/// Any strides: each element's place in the row-major order gives its coordinates. Index is wide enough for n.
template <typename Functor, int BLOCK_SIZE, typename Index, typename Out, typename... In>
KILN_KERNEL void random_strided_kernel(Out* out, RowMajorIteration iteration, tl::uint64_t first_counter,
                                       const In*... in, RoundKeys keys, Distribution d) {
  const tl::int64_t first = tl::program_id(0) * BLOCK_SIZE;
  const auto linear = first + tl::arange<BLOCK_SIZE>();
  const auto mask = linear < iteration.n;
  constexpr int kOperands = 1 + sizeof...(In);
  decltype(tl::zeros<tl::int64_t, BLOCK_SIZE>()) offsets[kOperands];
  KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) offsets[operand] =
      tl::zeros<tl::int64_t, BLOCK_SIZE>();
  auto rest = tl::cast<Index>(linear);
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_dims; ++dim) {
    const Index extent = static_cast<Index>(iteration.extents[dim]);
    const auto quotient = rest / extent;
    const auto coordinate = tl::cast<tl::int64_t>(rest - quotient * extent);
    KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) offsets[operand] =
        offsets[operand] + coordinate * iteration.strides[operand][dim];
    rest = quotient;
  }
  const auto drawn = draw_block<Functor, BLOCK_SIZE>(keys, d, first_counter, first);
  tl::store(out + offsets[0],
            tl::cast<Out>(finish_random<Functor>(d, drawn, tl::load(in + offsets[kOperands - 1], mask)...)), mask);
}

}  // namespace kiln::ops
