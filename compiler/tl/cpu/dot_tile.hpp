#pragma once

#include "compiler/tl/cpu/dot_block.hpp"

namespace kiln::tl {

template <Number T, typename ShapeT, DotPrecision kPrecision>
using accumulator_layout_t = Dense<ShapeT>;

/// What a product is computed in: integers of 8 bits in float, of which kExactDepth products add up exactly. Vectors
/// multiply floats as fast as 16-bit integers, and without an instruction set of its own.
template <Number A, Number B>
struct DotCompute {
  using type = conditional_t<is_same<A, double>, double, float>;
  static constexpr int kExactDepth = is_same<A, int8_t> && is_same<B, int8_t> ? 1024 : 256;
};

/// acc += a @ b, where acc is a tile of kM x kN and a has at most kDepth columns that count. b is packed into panels as
/// wide as a block of registers, which lie in memory as they are read. Of a the rows are read where they are if they
/// have the type and are contiguous, since only single elements of them are read, as far as there are kBlock of them,
/// and packed kBlock at a time otherwise.
template <int kM, int kN, int kDepth, typename A, typename B, Number Acc>
KILN_DEVICE void accumulate_product(const A& a, const B& b, Acc* acc) {
  using T = typename A::value_type;
  using C = typename DotCompute<T, typename B::value_type>::type;
  using Block = DotBlock<C>;
  // Narrow ones of columns that are no whole number of wide ones, which would reach into the next rows.
  constexpr int kPanel = kN % Block::kColumns == 0 ? Block::kColumns : Block::kLanes;
  static_assert(kN % kPanel == 0, "dot: columns are a multiple of 16");
  constexpr bool kInPlace = is_same<T, C> && is_same<typename A::column_stride_type, Constant<1>>;
  // Rows that are contiguous are worth packing in long pieces.
  constexpr int kBlock = kM < 64 ? kM : 64;
  alignas(64) C panels[kDepth * kN];
  alignas(64) C block[(kBlock < 16 ? 16 : kBlock) * kDepth];
  const int common = a.columns < b.rows ? a.columns : b.rows, depth = common < kDepth ? common : kDepth;

  // Few rows of all panels at a time where rows are contiguous: a row's page is then read once.
  constexpr int kPiece = is_same<typename B::column_stride_type, Constant<1>> ? 16 : kDepth;
  KILN_NO_UNROLL for (int row = 0; row < depth; row += kPiece)
      KILN_NO_UNROLL for (int column = 0; column < b.columns; column += kPanel)
          pack_matrix<C>(b.from(row, column), depth - row < kPiece ? depth - row : kPiece, kPanel,
                         panels + (column * kDepth + row * kPanel), kPanel);
  KILN_NO_UNROLL for (int first = 0; first < a.rows; first += kBlock) {
    const auto left = a.from(first, 0);
    const int height = left.rows < kBlock ? left.rows : kBlock;
    const C* rows = block;
    int64_t row_stride = kDepth;
    bool is_packed = true;
    if constexpr (kInPlace)
      if (left.rows >= kBlock) {
        rows = left.data;
        row_stride = left.row_stride;
        is_packed = false;
      }
    if (is_packed) pack_matrix<C>(left, (height + 15) / 16 * 16, (depth + 15) / 16 * 16, block, kDepth);
    KILN_NO_UNROLL for (int column = 0; column < b.columns; column += kPanel) Block::template multiply<kPanel>(
        (height + 7) / 8 * 8, depth, rows, row_stride, panels + column * kDepth, acc + (first * kN + column), kN);
  }
}

template <DotPrecision, int kMaxNumImpreciseAcc, bool kIsFresh, typename A, typename B, typename Acc>
KILN_DEVICE Acc dot_tile(const A& a, const B& b, const Acc& acc) {
  using T = typename A::value_type;
  using S = typename Acc::shape;
  constexpr int kK = A::shape::kColumns, kExact = DotCompute<T, typename B::value_type>::kExactDepth;
  constexpr int kDepth = Floating<T> || kK < kExact ? kK : kExact;
  Acc result = acc;  // the compiler lets `acc = dot(a, b, acc)` add in place
  const auto& left = operand_of(a);
  const auto& right = operand_of(b);
  KILN_NO_UNROLL for (int k = 0; k < kK; k += kDepth) accumulate_product<S::kRows, S::kColumns, kDepth>(
      view_of(left).from(0, k), view_of(right).from(k, 0), result.registers);
  return result;
}

template <bool kIsLarge, bool kReadInPipeline, typename Make>
KILN_DEVICE auto operand_tile(Make& make) {
  return make();
}

template <PipelineTile X>
KILN_DEVICE auto operand_values_of(const X& x) {
  return to_values(x);
}

template <DotPrecision kPrecision, int kMaxNumImpreciseAcc, bool kIsFresh, typename Sums, typename A, typename B>
KILN_DEVICE Sums dot_tile_alone(const A& a, const B& b) {
  return dot_tile<kPrecision, kMaxNumImpreciseAcc, kIsFresh>(
      a, b, full_of<typename Sums::value_type, typename Sums::shape>({}));
}

template <Number T, typename S, typename Acc, AffineTile A, typename M>
KILN_DEVICE auto load_in_layout(const T* data, const A& offsets, const M& mask, T other) {
  return load_affine<T, S>(data, offsets, mask, other);
}

}  // namespace kiln::tl
