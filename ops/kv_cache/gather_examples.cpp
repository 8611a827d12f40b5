#include "ops/kv_cache/gather_examples.hpp"

#include <algorithm>
#include <cstdint>

#include "ops/common/element.hpp"
#include "ops/common/random_shape.hpp"
#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {
namespace {

using common::one_of;
using common::random_index_dtype;

/// What a request's list may hold behind its real pairs.
constexpr std::int64_t kGarbage = 0x7f7f7f7f;

void store(const TensorView& view, std::int64_t offset, std::int64_t value) {
  common::store_at<std::int64_t>(view, offset, value);
}

std::int64_t load(const TensorView& view, std::int64_t offset) {
  return common::load_at<std::int64_t>(view, offset);
}

/// Whether elements of `view` are one and the same in memory, as along a dimension that was expanded.
bool is_expanded(const TensorView& view) {
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] == 0) return true;
  return false;
}

TensorMeta left_out() {
  return {DType::i32, {}, true};
}

Attributes rows_attributes(std::int64_t max_sms, bool check_bounds) {
  return {{"max_sms", max_sms}, {"check_bounds", check_bounds}};
}

}  // namespace

std::vector<Example> rows_examples() {
  return {
      {{{DType::u8, {400, 656}}, {DType::u8, {1000, 656}}, {DType::i32, {4, 64, 2}}}, {}},
      {{{DType::bf16, {90, 8, 64}}, {DType::bf16, {70, 8, 64}}, {DType::i64, {3, 20, 2}}, {DType::i32, {3}}}, {}},
      {{{DType::fp8e4m3, {64, 656}},
        {DType::fp8e4m3, {200, 656}},
        {DType::i32, {5, 10, 2}},
        {DType::i32, {5}},
        {DType::i32, {200}}},
       rows_attributes(2, true)},
      {{{DType::f32, {30, 5}}, {DType::f32, {40, 5}}, {DType::i64, {2, 17, 2}}, left_out(), {DType::i64, {40}}}, {}},
      {{{DType::u8, {9, 16}}, {DType::u8, {9, 16}}, {DType::i64, {3, 0, 2}}}, {}},
      {{{DType::f64, {7}}, {DType::f64, {8}}, {DType::i32, {1, 7, 2}}}, {}},
  };
}

Example random_rows(std::mt19937_64& random, std::span<const DType> dtypes) {
  constexpr std::int64_t kRowBytes[] = {1,   2,   3,   8,   16,  20,  24,  32,  40,   64,   100,  128, 130,
                                        144, 256, 272, 512, 528, 576, 656, 704, 1040, 1152, 2048, 4096};
  constexpr std::int64_t kExtents[] = {0, 1, 2, 3, 7, 16, 31, 64, 100};
  const DType dtype = one_of(dtypes, random);
  const std::int64_t width = std::max<std::int64_t>(one_of(kRowBytes, random) / itemsize_bytes(dtype), 1);
  const auto rows = [&](std::int64_t count) {
    return random() % 3 == 0 && width % 2 == 0 ? Dims{count, 2, width / 2} : Dims{count, width};
  };
  Example example;
  const std::int64_t requests = 1 + static_cast<std::int64_t>(random() % 5), topk = one_of(kExtents, random);
  const std::int64_t dst_rows = one_of(kExtents, random) + 1, src_rows = one_of(kExtents, random) + 1;
  const Dims dst = rows(dst_rows);
  Dims src = dst;
  src[0] = src_rows;
  example.inputs = {{dtype, dst}, {dtype, src}, {random_index_dtype(random), {requests, topk, 2}}};
  const bool has_counts = random() % 2 == 0, has_slot_map = random() % 3 == 0;
  if (has_counts) example.inputs.push_back({random_index_dtype(random), {requests}});
  if (has_slot_map) {
    if (!has_counts) example.inputs.push_back(left_out());
    example.inputs.push_back({random_index_dtype(random), {src_rows}});
  }
  example.attributes = rows_attributes(static_cast<std::int64_t>(random() % 3), random() % 4 == 0);
  return example;
}

void spoil_rows(const RowsCall& rows, const OpCall& call, std::mt19937_64& random) {
  const ops::RowsIteration& it = rows.iteration;
  const TensorView& indices = call.inputs[kIndices];
  if (is_expanded(indices)) return;
  for (std::int64_t request = 0; request < indices.shape[0]; ++request) {
    std::int64_t real = it.topk;
    if (rows.has_counts) {
      // One more than there is room for, and less than none, are taken for the nearest that makes sense.
      if (random() % 4 == 0 && !is_expanded(call.inputs[kCounts]))
        store(call.inputs[kCounts], request * it.count_stride, random() % 2 == 0 ? -1 : it.topk + 1);
      real = load(call.inputs[kCounts], request * it.count_stride);
    }
    for (std::int64_t place = 0; place < it.topk; ++place) {
      const std::int64_t src = request * it.index_strides[0] + place * it.index_strides[1],
                         dst = src + it.index_strides[2];
      if (place >= real) {
        store(indices, src, kGarbage);
        store(indices, dst, kGarbage);
        continue;
      }
      if (random() % 8 == 0) store(indices, src, -1);
      if (random() % 8 == 0) store(indices, dst, -1 - static_cast<std::int64_t>(random() % 3));
    }
  }
}

SkippedWork skipped_by_rows(const RowsCall& rows, const OpCall& call) {
  const ops::RowsIteration& it = rows.iteration;
  const TensorView& indices = call.inputs[kIndices];
  SkippedWork work{it.pairs, it.pairs, "pairs of 'indices'"};
  for (std::int64_t request = 0; request < indices.shape[0]; ++request) {
    const std::int64_t real =
        rows.has_counts ? std::min<std::int64_t>(load(call.inputs[kCounts], request * it.count_stride), it.topk)
                        : it.topk;
    for (std::int64_t place = 0; place < real; ++place) {
      const std::int64_t entry = request * it.index_strides[0] + place * it.index_strides[1];
      const std::int64_t src = load(indices, entry), dst = load(indices, entry + it.index_strides[2]);
      if (src >= 0 && src < it.src_rows && dst >= 0 && dst < it.dst_rows) --work.skipped;
    }
  }
  return work;
}

}  // namespace kiln::kv_cache
