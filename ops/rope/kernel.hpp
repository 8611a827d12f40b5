#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/rope/iteration.hpp"
#include "ops/rope/kernel_form.hpp"
#include "ops/rope/kernel_pairs.hpp"
#include "ops/rope/kernel_rotation.hpp"

namespace kiln::ops {

/// out = x with its pairs (a, b) turned: (a cos - b sin, b cos + a sin). Su et al., "RoFormer: Enhanced Transformer
/// with Rotary Position Embedding" (2021). A program goes through its tokens by BLOCK_T, or has
/// no more than these (ONE_TILE). Their cosines and sines serve all of its heads, of which IN_FLIGHT are read before
/// the first of them is written. A program alone reads what it writes, and reads it before, so that out may be x.
template <typename T, typename C, typename I, RopeForm FORM, int BLOCK_T, bool ONE_TILE, int IN_FLIGHT>
KILN_KERNEL void rope_kernel(T* out, const T* x, const C* cos, const C* sin, const I* positions, RopeIteration it) {
  using Pairs = RopePairs<FORM>;
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  const tl::int64_t first_head = take_coordinate(rest, it.head_blocks) * it.program_heads;
  const tl::int64_t first_token = take_coordinate(rest, it.token_blocks) * it.program_tokens;
  [[maybe_unused]] const bool copies = out != x;
  tl::int64_t first_position = 0;
  KILN_NO_UNROLL for (int dim = 0; dim < it.num_outer_dims; ++dim) {
    const tl::int64_t coordinate = take_coordinate(rest, it.outer_extents[dim]);
    out += coordinate * it.outer_strides[0][dim];
    x += coordinate * it.outer_strides[1][dim];
    if constexpr (FORM.has_tables) {
      cos += coordinate * it.outer_strides[2][dim];
      sin += coordinate * it.outer_strides[3][dim];
    }
    if constexpr (FORM.has_positions)
      positions += coordinate * it.outer_strides[4][dim];
    else
      first_position += coordinate * it.outer_strides[4][dim];
  }
  [[maybe_unused]] const tl::int64_t end_token =
      first_token + it.program_tokens < it.tokens ? first_token + it.program_tokens : it.tokens;
  const tl::int64_t end_head = first_head + it.program_heads < it.heads ? first_head + it.program_heads : it.heads;

  const auto copy = [&]([[maybe_unused]] tl::int64_t token, [[maybe_unused]] tl::int64_t first,
                        [[maybe_unused]] tl::int64_t end) {
    if constexpr (FORM.copies_rest)
      KILN_NO_UNROLL for (tl::int64_t head = first; head < (copies ? end : first); ++head)
          copy_columns<FORM, 2 * FORM.padded_pairs()>(
              out + head * it.head_strides[0], it.token_strides[0], it.element_strides[0],
              x + head * it.head_strides[1], it.token_strides[1], it.element_strides[1],
              token + tl::expand_dims<1>(tl::arange<BLOCK_T>()), it.tokens, FORM.rotary_dim, it.head_dim);
  };
  const auto turn = [&](tl::int64_t token, const auto& turns) {
    const auto rows = token + tl::expand_dims<1>(tl::arange<BLOCK_T>());
    const auto [c, sine] = rotations<FORM, BLOCK_T>(cos, sin, positions, first_position, token, turns, it);
    const auto s = FORM.inverse ? -sine : sine;
    KILN_NO_UNROLL for (tl::int64_t head = first_head; head < end_head; head += IN_FLIGHT) {
      decltype(Pairs::read(x, rows, 0LL, 0LL, tl::int64_t{0})) pairs[IN_FLIGHT];
      // Of heads behind the last no token is there.
      const auto tokens_of = [&](int i) { return head + i < end_head ? it.tokens : 0; };
      KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) pairs[i] = Pairs::read(
          x + (head + i) * it.head_strides[1], rows, it.token_strides[1], it.element_strides[1], tokens_of(i));
      KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
        const auto a = tl::cast<float>(pairs[i].first), b = tl::cast<float>(pairs[i].second);
        Pairs::write(out + (head + i) * it.head_strides[0], rows, it.token_strides[0], it.element_strides[0],
                     tokens_of(i), tl::cast<T>(tl::fma(a, c, -(b * s))), tl::cast<T>(tl::fma(b, c, a * s)));
      }
      // Here a CPU completes lines that it has just written part of: 1.6 ms for half of each head, 2.9 in passes.
      if constexpr (!ONE_TILE) copy(token, head, head + IN_FLIGHT < end_head ? head + IN_FLIGHT : end_head);
    }
  };
  if constexpr (ONE_TILE) {
    // Before the rotations, which would wait in registers.
    copy(first_token, first_head, end_head);
    turn(first_token, turns_of_pairs<FORM, BLOCK_T>(it.turns));
  } else {
    const auto turns = turns_of_pairs<FORM, BLOCK_T>(it.turns);
    KILN_NO_UNROLL for (tl::int64_t token = first_token; token < end_token; token += BLOCK_T) turn(token, turns);
  }
}

}  // namespace kiln::ops
