#include "ops/kv_cache/rows_reference.hpp"

#include <cstddef>
#include <cstring>

#include "ops/elementwise/element.hpp"
#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {
namespace {

std::int64_t integer_at(const TensorView& view, std::int64_t offset) {
  return elementwise::load_element<std::int64_t>(
      static_cast<const std::byte*>(view.data) + offset * itemsize_bytes(view.dtype), view.dtype);
}

}  // namespace

void rows_reference(const OpCall& call) {
  const RowsCall rows = rows_call(call);
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
    if (rows.has_slot_map)
      elementwise::store_element<std::int64_t>(
          static_cast<std::byte*>(call.inputs[kSlotMap].data) + src * it.slot_stride * itemsize_bytes(rows.slot),
          rows.slot, dst);
  }
}

}  // namespace kiln::kv_cache
