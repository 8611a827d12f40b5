#pragma once

#include "compiler/tl/cuda/sm90/tensor_map.hpp"
#include "compiler/tl/program.hpp"
#include "ops/matmul/iteration_sm90.hpp"
#include "ops/matmul/kernel_sm90_output.cuh"
#include "ops/matmul/kernel_sm90_work.cuh"

namespace kiln::ops {

/// See matmul_sm90_combine_kernel.
template <typename Out, typename Addend, typename A, typename Epilogue, int COLUMNS, MatmulSm90Layout LAYOUT>
KILN_DEVICE void matmul_sm90_combine(const TensorMap& out_map, Out* out, const Addend* addend, const Epilogue& epilogue,
                                     const MatmulSm90Iteration& iteration, const MatmulSm90TileShape& shape,
                                     const float* parts) {
  constexpr MatmulSm90Tiling kTiling = matmul_sm90_piece(COLUMNS);
  constexpr bool kLoadsA = LAYOUT.a_is_mn && sizeof(A) != 2;
  using Accumulator = tl::conditional_t<tl::is_same<A, tl::int8_t>, tl::int32_t, float>;
  using Output =
      MatmulSm90Output<Out, Addend, Accumulator, Epilogue, tl::conditional_t<kLoadsA, A, void>, kTiling, LAYOUT>;
  constexpr int kQuads = COLUMNS / 8, kThreads = tl::sm90::kWarpgroupThreads;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Output output{tl::sm90::shared_address(shared), out_map, out, addend, epilogue, iteration};

  // Pieces of 64 rows, row blocks of a block's tile, blocks of a cluster, tiles.
  const int thread = static_cast<int>(threadIdx.x);
  const int pieces = shape.block_n / COLUMNS, row_blocks = shape.block_m / 64;
  const int cluster_blocks = shape.cluster_m * shape.cluster_n;
  int number = static_cast<int>(blockIdx.x);
  const int piece = number % pieces;
  number /= pieces;
  const int row_block = number % row_blocks;
  number /= row_blocks;
  const int rank = number % cluster_blocks, shared_tile = number / cluster_blocks;
  const int tiles = matmul_sm90_quotient(shared_tile, iteration.team);
  const int member = shared_tile - tiles * iteration.team.divisor;
  const MatmulSm90Segments segments(iteration, tiles);
  if (segments.first == segments.last) return;
  MatmulSm90Tile tile = matmul_sm90_tile(iteration, iteration.whole_tiles + shared_tile, shape, rank % shape.cluster_m,
                                         rank / shape.cluster_m);
  tile.row += row_block * 64;
  tile.column += piece * COLUMNS;
  typename Output::AskedAddends asked;
  output.ask_addends(tile, thread, asked);

  const long long row_quads = shape.block_n / 8, tile_quads = row_quads * row_blocks;
  const long long first_block =
      static_cast<long long>(MatmulSm90Segments::slot(iteration, segments.first, tiles, member)) * cluster_blocks +
      rank;
  const long long next_part = iteration.team.divisor * cluster_blocks * tile_quads * kThreads;
  const uint4* from = reinterpret_cast<const uint4*>(parts) +
                      (first_block * tile_quads + row_block * row_quads + piece * kQuads) * kThreads + thread;
  Accumulator sum[4 * kQuads] = {};
  const auto add = [&]<int kParts>() {
    // All of them are on their way before the first is added.
    uint4 loaded[kParts][kQuads];
    KILN_UNROLL for (int part = 0; part < kParts; ++part) {
      KILN_UNROLL for (int quad = 0; quad < kQuads; ++quad) loaded[part][quad] = __ldcg(from + quad * kThreads);
      from += next_part;
    }
    KILN_UNROLL for (int part = 0; part < kParts; ++part) KILN_UNROLL for (int quad = 0; quad < kQuads; ++quad) {
      Accumulator values[4];
      memcpy(values, &loaded[part][quad], sizeof values);
      KILN_UNROLL for (int i = 0; i < 4; ++i) sum[4 * quad + i] += values[i];
    }
  };
  int left = segments.last - segments.first + 1;
  KILN_NO_UNROLL for (; left >= 8; left -= 8) add.template operator()<8>();
  if (left & 4) add.template operator()<4>();
  if (left & 2) add.template operator()<2>();
  if (left & 1) add.template operator()<1>();
  typename Output::RowAddends held[1];
  output.take_addends(0, thread, asked, held);
  int buffer = 0;
  output.store(sum, held[0], tile, 0, thread, buffer);
  if (LAYOUT.out_is_mapped && thread == 0) tl::sm90::wait_until_stores_read<0>();
}

/// Sums what clusters left of their shared tiles (kernel_sm90.cuh), in the order of k, and has it leave as whole tiles
/// do. A program has 64 rows and COLUMNS columns of a tile. A tile that one cluster had to itself has left already.
/// Types and layout are the product's; LOADS_A: whether that loads a to registers. One kernel is for both orders of the
/// operands: those that a weight takes are few then.
template <typename Out, typename Addend, typename A, typename Epilogue, int COLUMNS, bool LOADS_A, bool OUT_IS_MAPPED>
__global__ __launch_bounds__(32 * KILN_NUM_WARPS, 4) void matmul_sm90_combine_kernel(
    const __grid_constant__ TensorMap out_map, Out* out, const Addend* addend, const float* scale_a,
    const float* scale_b, MatmulScalars<typename Epilogue::Compute> scalars,
    const __grid_constant__ MatmulSm90Iteration iteration, MatmulSm90TileShape shape, bool transposed,
    const float* parts) {
  static_assert(32 * KILN_NUM_WARPS == tl::sm90::kWarpgroupThreads, "threads hold what a warpgroup's did");
  tl::wait_for_previous();
  Epilogue epilogue{scalars};
  if constexpr (Epilogue::kScaled) epilogue.scale(*scale_a, *scale_b);
  constexpr MatmulSm90Layout kRows{LOADS_A, false, false, OUT_IS_MAPPED}, kColumns{LOADS_A, false, true, OUT_IS_MAPPED};
  if (transposed)
    matmul_sm90_combine<Out, Addend, A, Epilogue, COLUMNS, kColumns>(out_map, out, addend, epilogue, iteration, shape,
                                                                     parts);
  else
    matmul_sm90_combine<Out, Addend, A, Epilogue, COLUMNS, kRows>(out_map, out, addend, epilogue, iteration, shape,
                                                                  parts);
}

}  // namespace kiln::ops
