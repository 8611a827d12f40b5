#include "ops/kv_cache/rows_reference.hpp"

#include <cstddef>
#include <cstring>

#include "ops/common/element.hpp"
#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {
namespace {

std::int64_t integer_at(const TensorView& view, std::int64_t offset) {
  return common::load_at<std::int64_t>(view, offset);
}

}  // namespace

void rows_reference(const RowsCall& rows, const OpCall& call) {
  const ops::RowsIteration& it = rows.iteration;
  const TensorView& indices = call.inputs[kIndices];
  for (std::int64_t pair = 0; pair < it.pairs; ++pair) {
    const std::int64_t request = pair / it.topk, place = pair % it.topk;
    if (rows.has_counts && place >= integer_at(call.inputs[kCounts], request * it.count_stride)) continue;
    const std::int64_t entry = request * it.index_strides[0] + place * it.index_strides[1];
    const std::int64_t src = integer_at(indices, entry), dst = integer_at(indices, entry + it.index_strides[2]);
    if (src < 0 || dst < 0 || src >= it.src_rows || dst >= it.dst_rows) continue;
    std::memcpy(static_cast<std::byte*>(call.inputs[kDst].data) + dst * it.dst_stride,
                static_cast<const std::byte*>(call.inputs[kSrc].data) + src * it.src_stride,
                static_cast<std::size_t>(it.row_bytes));
    if (rows.has_slot_map) common::store_at<std::int64_t>(call.inputs[kSlotMap], src * it.slot_stride, dst);
  }
}

}  // namespace kiln::kv_cache
