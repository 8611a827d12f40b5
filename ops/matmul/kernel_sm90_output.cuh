#pragma once

#include "compiler/tl/cast.hpp"
#include "compiler/tl/cuda/sm90/fragment.hpp"
#include "compiler/tl/cuda/sm90/tensor_map.hpp"
#include "compiler/tl/cuda/sm90/warpgroup.hpp"
#include "ops/matmul/functors.hpp"
#include "ops/matmul/iteration_sm90.hpp"
#include "ops/matmul/kernel_sm90_tiling.hpp"
#include "ops/matmul/kernel_sm90_work.cuh"

namespace kiln::ops {

using tl::sm90::TensorMap;

/// What becomes of a math group's part of a product in kernel_sm90.cuh: the epilogue, and the way to memory by buffers
/// in shared memory. LoadedT: the type of a first operand that is loaded to registers, else void.
template <typename OutT, typename AddendT, typename Accumulator, typename EpilogueT, typename LoadedT,
          MatmulSm90Tiling TILING, MatmulSm90Layout LAYOUT>
struct MatmulSm90Output {
  using Compute = typename EpilogueT::Compute;
  static constexpr bool kLoadsA = !tl::is_same<LoadedT, void>;
  KILN_DEVICE static constexpr MatmulSm90Places places() { return {TILING, LAYOUT.b_is_mn}; }
  static constexpr int kRowBytes = MatmulSm90Places::kRowBytes;
  static constexpr int kOutBytes = static_cast<int>(sizeof(OutT));
  static_assert(places().store_buffers() == 2 || TILING.columns() * 64 * kOutBytes <= MatmulSm90Places::kStoreBytes,
                "one buffer takes all");
  /// Rows of the product that a thread has are so far apart.
  static constexpr int kHalfRows = kLoadsA ? 1 : 8;

  tl::uint32_t shared;  ///< see shared_address
  const TensorMap& out_map;
  OutT* out;
  const AddendT* addend;
  EpilogueT epilogue;
  const MatmulSm90Iteration& it;
  using Tile = MatmulSm90Tile;

  /// What the epilogue adds to an element of the product; a row of it depends on out's column alone, which is the
  /// product's row where that is transposed.
  KILN_DEVICE AddendT stored_addend_at(int row, int column, int batch) const {
    if constexpr (EpilogueT::kAddend == kNoAddend) {
      return AddendT{};
    } else {
      constexpr bool kAnyRow = EpilogueT::kAddend != kRowAddend || LAYOUT.transposed;
      constexpr bool kAnyColumn = EpilogueT::kAddend != kRowAddend || !LAYOUT.transposed;
      if ((kAnyRow && row >= it.m) || (kAnyColumn && column >= it.n)) return AddendT{};
      return addend[batch * it.addend_strides[2] + (kAnyRow ? row * it.addend_strides[0] : 0) +
                    (kAnyColumn ? column * it.addend_strides[1] : 0)];
    }
  }
  KILN_DEVICE Compute addend_at(int row, int column, int batch) const {
    return tl::cast<Compute>(stored_addend_at(row, column, batch));
  }
  /// A row's addends are multiplied by beta once, on their way to where they wait.
  KILN_DEVICE Compute finished(Accumulator product, Compute addend) const {
    if constexpr (EpilogueT::kAddend == kNoAddend)
      return epilogue.apply(tl::cast<Compute>(product));
    else if constexpr (kStagesAddends || kHoldsAddends)
      return epilogue.apply_scaled(tl::cast<Compute>(product), addend);
    else
      return epilogue.apply(tl::cast<Compute>(product), addend);
  }
  /// Whether a row of addends waits in shared memory: from the L2 it would come too late for each part of the output.
  static constexpr bool kStagesAddends = EpilogueT::kAddend == kRowAddend && !LAYOUT.transposed;

  KILN_DEVICE tl::uint32_t addend_row(int group) const {
    return shared + static_cast<tl::uint32_t>(places().addends() + group * places().addend_row_bytes());
  }
  /// Whether a thread has the addends of its rows in registers, for the same reason: where they depend on the product's
  /// row.
  static constexpr bool kHoldsAddends = EpilogueT::kAddend == kRowAddend && LAYOUT.transposed;
  static constexpr int kAskedAddends = kStagesAddends  ? (TILING.columns() - 1) / tl::sm90::kWarpgroupThreads + 1
                                       : kHoldsAddends ? 2 * TILING.row_blocks()
                                                       : 1;
  using AskedAddends = AddendT[kAskedAddends];
  using RowAddends = Compute[2];

  /// Asks for a tile's addends before it is multiplied; take_addends has them when it is. Waiting for them in between
  /// cost 128 x 256 tiles 700 clocks each.
  KILN_DEVICE void ask_addends(Tile tile, int thread, AskedAddends& asked) const {
    if constexpr (kStagesAddends) KILN_UNROLL for (int i = 0; i < kAskedAddends; ++i) {
        const int x = i * tl::sm90::kWarpgroupThreads + thread;
        asked[i] = x < TILING.columns() ? stored_addend_at(tile.row, tile.column + x, tile.batch) : AddendT{};
      }
    if constexpr (kHoldsAddends)
      KILN_UNROLL for (int i = 0; i < kAskedAddends; ++i) asked[i] =
          stored_addend_at(tile.row + i / 2 * 64 + row_of(thread) + i % 2 * kHalfRows, tile.column, tile.batch);
  }
  /// The whole group has read the row of the tile before, and meets before it reads this one.
  KILN_DEVICE void take_addends(int group, int thread, AskedAddends& asked,
                                RowAddends (&held)[TILING.row_blocks()]) const {
    if constexpr (kStagesAddends || kHoldsAddends) KILN_UNROLL for (int i = 0; i < kAskedAddends; ++i) {
        // What is made of a value would else be made, and the value be waited for, where it was asked for.
        if constexpr (sizeof(AddendT) == 2) {
          auto bits = __builtin_bit_cast(tl::uint16_t, asked[i]);
          asm volatile("" : "+h"(bits));
          asked[i] = __builtin_bit_cast(AddendT, bits);
        } else if constexpr (sizeof(AddendT) == 4) {
          auto bits = __builtin_bit_cast(tl::uint32_t, asked[i]);
          asm volatile("" : "+r"(bits));
          asked[i] = __builtin_bit_cast(AddendT, bits);
        }
        const Compute value = epilogue.scaled_addend(tl::cast<Compute>(asked[i]));
        if constexpr (kHoldsAddends)
          held[i / 2][i % 2] = value;
        else if (const int x = i * tl::sm90::kWarpgroupThreads + thread; x < TILING.columns())
          tl::sm90::put_shared(addend_row(group) + static_cast<tl::uint32_t>(x) * 4, value);
      }
  }

  static constexpr bool kPrefetchesAddends = EpilogueT::kAddend == kFullAddend;
  /// Asks the L2 for the whole addends of a tile of so many rows that is yet to come. Its threads load few of them at a
  /// time, and waited for memory each time.
  KILN_DEVICE void prefetch_addends(Tile tile, int rows, int thread) const {
    if constexpr (kPrefetchesAddends) {
      constexpr int kLine = 128 / static_cast<int>(sizeof(AddendT));
      const bool along_columns = it.addend_strides[1] == 1;
      rows = min(rows, it.m - tile.row);
      const int columns = min(TILING.columns(), it.n - tile.column);
      const int inner = along_columns ? columns : rows, outer = along_columns ? rows : columns;
      const AddendT* const first = addend + (tile.batch * it.addend_strides[2] + tile.row * it.addend_strides[0] +
                                             tile.column * it.addend_strides[1]);
      const int lines = inner > 0 ? (inner - 1) / kLine + 1 : 0;
      KILN_NO_UNROLL for (int i = thread; i < lines * outer; i += tl::sm90::kWarpgroupThreads) {
        const int y = i / lines, x = (i - y * lines) * kLine;
        const AddendT* const line =
            first + (y * it.addend_strides[along_columns ? 0 : 1] + x * it.addend_strides[along_columns ? 1 : 0]);
        asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
      }
    }
  }

  /// Where out's element `inner` of line `line` lies in a buffer of lines of kLineBytes, 8 to 128: chunks change places
  /// as the copy engine's swizzle of that span has them.
  template <int kLineBytes>
  KILN_DEVICE static int place(int line, int inner) {
    constexpr int kLines = kRowBytes / kLineBytes, kChunks = kLineBytes < 16 ? 1 : kLineBytes / 16;
    return line * kLineBytes + ((inner * kOutBytes) ^ ((line / kLines % kChunks) << 4));
  }

  /// The first of the rows of the product that a thread has, in each row block; the other is kHalfRows further.
  KILN_DEVICE static int row_of(int thread) {
    if constexpr (kLoadsA)
      return tl::sm90::Fragment<LoadedT>::row(thread);
    else
      return thread / 32 * 16 + thread % 32 / 4;
  }

  /// 64 rows x TILING.columns() of the product, from `tile` on.
  template <int kCount>
  KILN_DEVICE void store(const Accumulator (&d)[kCount], const RowAddends& held, Tile tile, int group, int thread,
                         int& buffer) const {
    if constexpr (LAYOUT.transposed)
      store_transposed(d, held, tile, group, thread, buffer);
    else
      store_rows(d, tile, group, thread, buffer);
  }

  /// What is added to rows y and y + kHalfRows, columns x and x + 1 of a tile; `staged`: of these columns.
  KILN_DEVICE void addends_at(Tile tile, int y, int x, const Compute (&staged)[2], Compute (&add)[2][2]) const {
    KILN_UNROLL for (int half = 0; half < 2; ++half) KILN_UNROLL for (int i = 0; i < 2; ++i) add[half][i] =
        kStagesAddends ? staged[i] : addend_at(tile.row + y + kHalfRows * half, tile.column + x + i, tile.batch);
  }

  /// The row whose address this thread gives for put_matrices.
  KILN_DEVICE static int matrix_row(int thread) {
    if constexpr (kLoadsA)
      return row_of(thread / 32 * 32 + thread % 8 * 4) + thread % 16 / 8;
    else
      return thread / 32 * 16 + thread % 32 % 16;
  }

  template <int kCount>
  KILN_DEVICE void store_rows(const Accumulator (&d)[kCount], Tile tile, int group, int thread, int& buffer) const {
    constexpr int kAcross = MatmulSm90Places::columns_at_once(TILING.columns(), kOutBytes);
    constexpr int kLineBytes = kAcross * kOutBytes;
    // 16-bit elements leave the registers as matrices of 8 x 8, others as pairs.
    constexpr bool kMatrices = kOutBytes == 2 && tl::is_same<Compute, float> && kAcross % 16 == 0;
    const int lane = thread % 32, row = row_of(thread), column = lane % 4 * 2;
    // Of what this thread writes first; places of the next columns differ in bits that the swizzle leaves to an
    // exclusive or.
    const int first_place =
        kMatrices ? place<kLineBytes>(matrix_row(thread), lane / 16 * 8) : place<kLineBytes>(row, column);
    // 8 rows further all lies as here, one row further not.
    const int other_place = place<kLineBytes>(row + 1, column);
    KILN_UNROLL for (int first = 0; first < TILING.columns(); first += kAcross) {
      const tl::uint32_t lines =
          shared + static_cast<tl::uint32_t>(places().stores() + (places().store_buffers() * group +
                                                                  (places().store_buffers() > 1 ? buffer : 0)) *
                                                                     MatmulSm90Places::kStoreBytes);
      if (LAYOUT.out_is_mapped && thread == 0) tl::sm90::wait_until_stores_read<places().store_buffers() - 1>();
      tl::sm90::named_sync(2 + group, tl::sm90::kWarpgroupThreads);
      // All at once: one by one each would be waited for.
      Compute staged[kAcross / 8][2] = {};
      if constexpr (kStagesAddends)
        KILN_UNROLL for (int i = 0; i < kAcross / 8; ++i) tl::sm90::get_shared_pair(
            addend_row(group) + static_cast<tl::uint32_t>(first + 8 * i + column) * 4, staged[i]);
      const tl::uint32_t base = lines + static_cast<tl::uint32_t>(first_place);
      constexpr int kStep = kMatrices ? 16 : 8;
      KILN_UNROLL for (int x = 0; x < kAcross; x += kStep) {
        // No more loads at once than there are registers for.
        if (EpilogueT::kAddend != kNoAddend && !kStagesAddends && x % 32 == 0) asm volatile("" ::: "memory");
        const tl::uint32_t address = base ^ (x * kOutBytes);
        Compute values[kStep / 8][2][2];
        KILN_UNROLL for (int part = 0; part < kStep / 8; ++part) {
          Compute add[2][2];
          addends_at(tile, row, first + x + 8 * part + column, staged[x / 8 + part], add);
          KILN_UNROLL for (int half = 0; half < 2; ++half) KILN_UNROLL for (int i = 0; i < 2; ++i)
              values[part][half][i] = finished(d[(first + x) / 2 + 4 * part + 2 * half + i], add[half][i]);
        }
        if constexpr (kMatrices) {
          tl::uint32_t matrices[4];
          KILN_UNROLL for (int i = 0; i < 4; ++i) matrices[i] =
              tl::narrow_float::f32_pair_to<tl::is_same<OutT, tl::bfloat16>>(values[i / 2][i % 2][0],
                                                                             values[i / 2][i % 2][1]);
          tl::sm90::put_matrices(address, matrices);
        } else {
          tl::uint32_t other = address + 8 * kLineBytes;
          if constexpr (kHalfRows == 1) other = (lines + static_cast<tl::uint32_t>(other_place)) ^ (x * kOutBytes);
          tl::sm90::put_pair<OutT>(address, values[0][0][0], values[0][0][1]);
          tl::sm90::put_pair<OutT>(other, values[0][1][0], values[0][1][1]);
        }
      }
      leave<kAcross, 64, kLineBytes>(lines, tile.column + first, tile.row, tile.batch, it.out_strides[1],
                                     it.out_strides[0], it.n, it.m, group, thread);
      buffer ^= 1;
    }
  }

  /// Columns of the product are lines of out, in panels of 128 bytes of rows: all of them at once where they fit, or
  /// some while others leave.
  template <int kCount>
  KILN_DEVICE void store_transposed(const Accumulator (&d)[kCount], const RowAddends& held, Tile tile, int group,
                                    int thread, int& buffer) const {
    constexpr int kAcross = kRowBytes / kOutBytes < 64 ? kRowBytes / kOutBytes : 64;
    constexpr int kLineBytes = kAcross * kOutBytes;
    constexpr int kLines = MatmulSm90Places::lines_at_once(TILING.columns(), kOutBytes);
    constexpr bool kWhole = kLines == TILING.columns();
    constexpr bool kMatrices =
        kOutBytes == 2 && tl::is_same<Compute, float> && kHalfRows == 8 && kLines % 16 == 0 && kAcross == 64;
    const int row = row_of(thread), column = thread % 4 * 2;
    KILN_UNROLL for (int begin = 0; begin < TILING.columns(); begin += kLines) {
      const tl::uint32_t panels =
          shared +
          static_cast<tl::uint32_t>(places().stores() + (places().store_buffers() * group + (kWhole ? 0 : buffer)) *
                                                            MatmulSm90Places::kStoreBytes);
      if (LAYOUT.out_is_mapped && thread == 0) tl::sm90::wait_until_stores_read<kWhole ? 0 : 64 / kAcross>();
      tl::sm90::named_sync(2 + group, tl::sm90::kWarpgroupThreads);
      const auto address_of = [&](int y, int x) {
        return panels +
               static_cast<tl::uint32_t>(y / kAcross * kLines * kLineBytes + place<kLineBytes>(x, y % kAcross));
      };
      const auto value_of = [&](int r, int y, int x) {
        if constexpr (kHoldsAddends) return finished(d[r], held[r / 2 % 2]);
        return finished(d[r], addend_at(tile.row + y, tile.column + begin + x, tile.batch));
      };
      if constexpr (kMatrices) {
        // Four matrices: 16 columns of the 16 rows that a warp has.
        const int lane = thread % 32, first_y = thread / 32 * 16 + lane / 8 % 2 * 8, first_x = lane / 16 * 8 + lane % 8;
        KILN_UNROLL for (int x = 0; x < kLines; x += 16) {
          tl::uint32_t matrices[4];
          KILN_UNROLL for (int i = 0; i < 4; ++i) {
            const int r = x / 2 + i / 2 * 4 + i % 2 * 2, y = row + i % 2 * 8, column_of_pair = x + i / 2 * 8 + column;
            matrices[i] = tl::narrow_float::f32_pair_to<tl::is_same<OutT, tl::bfloat16>>(
                value_of(begin / 2 + r, y, column_of_pair), value_of(begin / 2 + r + 1, y, column_of_pair + 1));
          }
          tl::sm90::put_matrices_transposed(address_of(first_y, x + first_x), matrices);
        }
      } else {
        KILN_UNROLL for (int r = 0; r < kLines / 2; r += kHalfRows == 1 ? 4 : 1) {
          if constexpr (kHalfRows == 1) {
            KILN_UNROLL for (int i = 0; i < 2; ++i) {
              const int x = r / 4 * 8 + column + i, first = begin / 2 + r + i;
              tl::sm90::put_pair<OutT>(address_of(row, x), value_of(first, row, x), value_of(first + 2, row + 1, x));
            }
          } else {
            const int x = r / 4 * 8 + column + r % 2, y = row + r / 2 % 2 * kHalfRows;
            const OutT value = tl::cast<OutT>(value_of(begin / 2 + r, y, x));
            tl::sm90::put_shared(address_of(y, x), value);
          }
        }
      }
      KILN_UNROLL for (int first = 0; first < 64; first += kAcross) leave<kAcross, kLines, kLineBytes>(
          panels + first / kAcross * kLines * kLineBytes, tile.row + first, tile.column + begin, tile.batch,
          it.out_strides[0], it.out_strides[1], it.m, it.n, group, thread);
      buffer ^= 1;
    }
  }

  /// A buffer of kLines lines to out, by the copy engine or by the threads.
  template <int kAcross, int kLines, int kLineBytes>
  KILN_DEVICE void leave(tl::uint32_t buffer, int inner, int line, int batch, long long inner_stride,
                         long long line_stride, long long inner_end, long long line_end, int group, int thread) const {
    if constexpr (LAYOUT.out_is_mapped) {
      tl::sm90::writes_ready();
      tl::sm90::named_sync(2 + group, tl::sm90::kWarpgroupThreads);
      if (thread == 0) {
        tl::sm90::store_box(out_map, buffer, inner, line, batch);
        tl::sm90::end_store_group();
      }
    } else {
      tl::sm90::named_sync(2 + group, tl::sm90::kWarpgroupThreads);
      // A thread stays in its column, and has read several elements before the first leaves.
      constexpr int kStep = tl::sm90::kWarpgroupThreads / kAcross, kOwn = kLines / kStep;
      static_assert(kLines % kStep == 0, "as many lines for each thread");
      constexpr int kAtOnce = kOwn % 8 == 0 ? 8 : kOwn % 4 == 0 ? 4 : 1;
      const int x = thread % kAcross, y = thread / kAcross;
      OutT* to = out + (batch * it.out_strides[2] + (line + y) * line_stride + (inner + x) * inner_stride);
      const long long ends = inner + x < inner_end ? line_end - line - y : 0;
      KILN_NO_UNROLL for (int i = 0; i < kOwn; i += kAtOnce) {
        OutT values[kAtOnce];
        KILN_UNROLL for (int j = 0; j < kAtOnce; ++j) values[j] =
            tl::sm90::get_shared<OutT>(buffer + static_cast<tl::uint32_t>(place<kLineBytes>(y + (i + j) * kStep, x)));
        KILN_UNROLL for (int j = 0; j < kAtOnce; ++j, to += kStep * line_stride) if ((i + j) * kStep < ends)* to =
            values[j];
      }
    }
  }
};

}  // namespace kiln::ops
