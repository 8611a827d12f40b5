#include "ops/kv_cache/gather_examples.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "ops/elementwise/element.hpp"
#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {
namespace {

/// What a request's list may hold behind its real pairs.
constexpr std::int64_t kGarbage = 0x7f7f7f7f;

/// 0 to extent - 1 in random order.
std::vector<std::int64_t> shuffled(std::int64_t extent, std::mt19937_64& random) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(extent));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

void store(const TensorView& view, std::int64_t offset, std::int64_t value) {
  elementwise::store_element<std::int64_t>(static_cast<std::byte*>(view.data) + offset * itemsize_bytes(view.dtype),
                                           view.dtype, value);
}

template <std::size_t N>
std::int64_t one_of(const std::int64_t (&values)[N], std::mt19937_64& random) {
  return values[random() % N];
}

/// Whether elements of `view` are one and the same in memory, as along a dimension that was expanded.
bool is_expanded(const TensorView& view) {
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] == 0) return true;
  return false;
}

DType random_index_dtype(std::mt19937_64& random) {
  return random() % 2 == 0 ? DType::i64 : DType::i32;
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
  const DType dtype = dtypes[random() % dtypes.size()];
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

void fill_rows(const OpCall& call, std::mt19937_64& random) {
  const RowsCall rows = rows_call(call);
  const ops::RowsIteration& it = rows.iteration;
  const std::vector<std::int64_t> targets = shuffled(it.dst_rows, random), sources = shuffled(it.src_rows, random);
  const TensorView& indices = call.inputs[kIndices];
  const std::int64_t requests = indices.shape[0];
  // Pairs that are one in memory cannot name distinct rows.
  const bool all_skip = is_expanded(indices);
  std::size_t used = 0;
  for (std::int64_t request = 0; request < requests; ++request) {
    std::int64_t real = it.topk;
    if (rows.has_counts) {
      // One more than there is room for, and less than none, are taken for the nearest that makes sense.
      const bool is_one = is_expanded(call.inputs[kCounts]);
      const std::int64_t count =
          is_one ? it.topk : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(it.topk + 3)) - 1;
      store(call.inputs[kCounts], request * it.count_stride, count);
      real = count;
    }
    for (std::int64_t place = 0; place < it.topk; ++place) {
      std::int64_t src = all_skip ? -1 : kGarbage, dst = src;
      if (place < real && !all_skip) {
        const bool is_left = used < targets.size() && (!rows.has_slot_map || used < sources.size());
        dst = is_left && random() % 8 != 0 ? targets[used] : -1 - static_cast<std::int64_t>(random() % 3);
        src = random() % 8 == 0   ? -1
              : !is_left          ? 0
              : rows.has_slot_map ? sources[used]
                                  : static_cast<std::int64_t>(random() % sources.size());
        ++used;
      }
      const std::int64_t entry = request * it.index_strides[0] + place * it.index_strides[1];
      store(indices, entry, src);
      store(indices, entry + it.index_strides[2], dst);
    }
  }
}

}  // namespace kiln::kv_cache
