#include "ops/matmul/exchange.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"

namespace kiln::matmul {

MatmulCall exchanged(MatmulCall call) {
  for (Matrix* matrix : {&call.a, &call.b, &call.addend, &call.out})
    std::swap(matrix->row_stride, matrix->column_stride);
  std::swap(call.a, call.b);
  std::swap(call.m, call.n);
  return call;
}

bool copies_columns(const MatmulCall& call) {
  constexpr std::int64_t kMostColumns = 4, kLeastRows = 16, kMostBytes = 256 << 10;  // which lie on the stack
  return call.b.row_stride != 1 && call.n <= kMostColumns && call.m >= kLeastRows &&
         call.n * ceil_power_of_two(call.k) * itemsize_bytes(call.a.dtype) <= kMostBytes;
}

MatmulCall well_read(const MatmulCall& call) {
  constexpr std::int64_t kFewColumns = 8, kWorthWritingAcross = 512;
  if (order_of(call.a) != 0 && call.b.row_stride == 1)
    if (const MatmulCall other = exchanged(call); copies_columns(other)) return other;
  if (order_of(call.a) != 1) return call;
  // Rows read across take a part of each line that they are in. Out of memory that is dear for more columns too (one
  // thread of a Zen 4 as an AVX2 CPU, ms: 576x27976' by 27976x15 30 -> 12, 16383x256' by 256x17 9.6 -> 6.4).
  constexpr std::int64_t kFewColumnsFromMemory = 32;
  const bool comes_from_caches =
      common::stays_in_caches(static_cast<double>(call.m * call.k * call.batches() * itemsize_bytes(call.a.dtype)));
  const std::int64_t few = comes_from_caches ? kFewColumns : kFewColumnsFromMemory;
  const bool has_few_columns = call.n <= few && call.m > few && call.k >= (comes_from_caches ? 1 : 4) * few;
  const bool is_better =
      has_few_columns || (order_of(call.b) == 1 && call.k >= std::min(4 * call.m, kWorthWritingAcross));
  return is_better ? exchanged(call) : call;
}

}  // namespace kiln::matmul
