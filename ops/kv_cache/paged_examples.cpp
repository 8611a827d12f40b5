#include "ops/kv_cache/paged_examples.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "ops/common/element.hpp"
#include "ops/common/random_shape.hpp"
#include "ops/kv_cache/append_call.hpp"
#include "ops/kv_cache/paged_call.hpp"

namespace kiln::kv_cache {
namespace {

using common::one_of;
using common::random_index_dtype;
using common::random_up_to;

struct RandomCache {
  std::int64_t num_blocks, page, heads, width;
  bool nhd;
  Dims shape() const { return nhd ? Dims{num_blocks, page, heads, width} : Dims{num_blocks, heads, page, width}; }
  std::string layout() const { return nhd ? "NHD" : "HND"; }
};

RandomCache random_cache(std::mt19937_64& random) {
  constexpr std::int64_t kPages[] = {1, 2, 3, 5, 8, 16, 16, 32}, kHeads[] = {1, 2, 3, 8},
                         kWidths[] = {1, 3, 8, 16, 20, 64, 80, 128, 128, 576};
  RandomCache cache{1 + random_up_to(20, random), one_of(kPages, random), one_of(kHeads, random),
                    one_of(kWidths, random), random() % 2 == 0};
  if (random() % 30 == 0) cache.num_blocks = 0;
  if (random() % 40 == 0) cache.width = 0;
  return cache;
}

void put_index(const TensorView& view, std::int64_t offset, std::int64_t value) {
  common::store_at<std::int64_t>(view, offset, value);
}

std::int64_t index_at(const TensorView& view, std::int64_t offset) {
  return common::load_at<std::int64_t>(view, offset);
}

/// Whether entries share memory, so that each cannot have a value of its own.
bool repeats(const TensorView& view) {
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] == 0) return true;
  return false;
}

/// What is no index below `limit`: negative, or where a check would not refuse the call too large.
std::int64_t no_index(std::int64_t limit, bool checked, std::mt19937_64& random) {
  const std::int64_t negative[] = {-1, -7, std::numeric_limits<std::int32_t>::min()};
  if (checked || random() % 2 == 0) return one_of(negative, random);
  return limit + random_up_to(100, random);
}

bool is_checked(const OpCall& call) {
  return call.attributes.get_bool("check_bounds");
}

}  // namespace

std::vector<Example> paged_gather_examples() {
  return {
      {{{DType::bf16, {40, 16, 8, 128}}, {DType::i32, {4, 8}}, {DType::i32, {4}}}, {{"max_len", std::int64_t{100}}}},
      {{{DType::f16, {12, 4, 32, 80}}, {DType::i64, {3, 4}}, {DType::i32, {3}}},
       {{"max_len", std::int64_t{128}}, {"layout", std::string("HND")}}},
      {{{DType::fp8e4m3, {9, 1, 1, 576}}, {DType::i32, {2, 5}}, {DType::i64, {2}}},
       {{"max_len", std::int64_t{5}}, {"check_bounds", true}}},
      {{{DType::f32, {3, 16, 2, 64}}, {DType::i32, {2, 0}}, {DType::i32, {2}}}, {{"max_len", std::int64_t{7}}}},
      {{{DType::f32, {3, 16, 2, 64}}, {DType::i32, {0, 4}}, {DType::i32, {0}}}, {{"max_len", std::int64_t{7}}}},
  };
}

std::vector<Example> append_examples() {
  const auto call = [](DType dtype, const Dims& rows, const Dims& cache, DType slots, Attributes attributes) {
    return Example{{{dtype, rows}, {dtype, rows}, {dtype, cache}, {dtype, cache}, {slots, {rows[0]}}},
                   std::move(attributes)};
  };
  return {
      call(DType::bf16, {100, 8, 128}, {16, 16, 8, 128}, DType::i64, {}),
      call(DType::f16, {33, 4, 80}, {5, 4, 32, 80}, DType::i32, {{"layout", std::string("HND")}}),
      call(DType::fp8e5m2, {7, 1, 20}, {9, 3, 1, 20}, DType::i64, {{"check_bounds", true}}),
      call(DType::f32, {0, 2, 64}, {3, 16, 2, 64}, DType::i32, {{"check_bounds", true}}),
  };
}

std::vector<Example> append_layers_examples() {
  const Dims rows{3, 16, 8, 128};
  return {{{{DType::bf16, rows}, {DType::bf16, rows}, {DType::i64, {3}}, {DType::i64, {3}}, {DType::i64, {16}}},
           {{"num_blocks", std::int64_t{20}}, {"page", std::int64_t{16}}}}};
}

std::vector<Example> swap_examples() {
  return {
      {{{DType::bf16, {12, 16, 8, 128}}, {DType::bf16, {20, 16, 8, 128}}, {DType::i64, {7, 2}}}, {}},
      {{{DType::u8, {30, 656}}, {DType::u8, {9, 656}}, {DType::i32, {11, 2}}}, {{"check_bounds", true}}},
      {{{DType::f32, {5}}, {DType::f32, {6}}, {DType::i32, {4, 2}}}, {}},
      {{{DType::f32, {5, 3}}, {DType::f32, {6, 3}}, {DType::i32, {0, 2}}}, {{"check_bounds", true}}},
  };
}

Example random_paged_gather(std::mt19937_64& random) {
  const RandomCache cache = random_cache(random);
  const std::int64_t requests = random_up_to(5, random), max_blocks = random_up_to(random() % 8 == 0 ? 40 : 6, random);
  const std::int64_t max_len = random_up_to((max_blocks + 1) * cache.page, random);
  return {
      {{one_of(kAllDTypes, random), cache.shape()},
       {random_index_dtype(random), {requests, max_blocks}},
       {random_index_dtype(random), {requests}}},
      {{"max_len", max_len}, {"layout", cache.layout()}, {"check_bounds", random() % 4 == 0 && cache.num_blocks > 0}}};
}

Example random_append(std::mt19937_64& random) {
  const RandomCache cache = random_cache(random);
  const std::int64_t tokens = random_up_to(random() % 8 == 0 ? 300 : 40, random);
  const DType dtype = one_of(kAllDTypes, random);
  const Dims rows{tokens, cache.heads, cache.width};
  return {{{dtype, rows},
           {dtype, rows},
           {dtype, cache.shape()},
           {dtype, cache.shape()},
           {random_index_dtype(random), {tokens}}},
          {{"layout", cache.layout()}, {"check_bounds", random() % 4 == 0}}};
}

Example random_append_layers(std::mt19937_64& random) {
  const RandomCache cache = random_cache(random);
  const std::int64_t layers = random_up_to(4, random), tokens = random_up_to(40, random);
  const DType dtype = one_of(kAllDTypes, random);
  const Dims rows{layers, tokens, cache.heads, cache.width};
  return {{{dtype, rows},
           {dtype, rows},
           {DType::i64, {layers}},
           {DType::i64, {layers}},
           {random_index_dtype(random), {tokens}}},
          {{"num_blocks", cache.num_blocks},
           {"page", cache.page},
           {"layout", cache.layout()},
           {"check_bounds", random() % 4 == 0}}};
}

Example random_swap(std::mt19937_64& random) {
  constexpr std::int64_t kWidths[] = {1, 4, 20, 41, 64, 656, 1024, 4096, 5000};
  const DType dtype = one_of(kAllDTypes, random);
  const std::int64_t width = one_of(kWidths, random);
  const auto blocks = [&] {
    const std::int64_t count = random_up_to(20, random);
    return random() % 2 == 0 ? Dims{count, width} : Dims{count, 1, width};
  };
  const Dims dst = blocks();
  Dims src = dst;
  src[0] = random_up_to(20, random);
  return {{{dtype, dst}, {dtype, src}, {random_index_dtype(random), {random_up_to(30, random), 2}}},
          {{"check_bounds", random() % 4 == 0}}};
}

void spoil_paged_gather(const OpCall& call, std::mt19937_64& random) {
  const TensorView &cache = call.inputs[0], &table = call.inputs[1], &lengths = call.inputs[2];
  const CacheShape shape = cache_shape(cache.shape, page_layout("kv_gather_paged", call.attributes));
  const bool checked = is_checked(call);
  const std::int64_t room = std::min(call.attributes.get_int("max_len"), table.shape[1] * shape.page);
  for (std::int64_t request = 0; request < table.shape[0] && !checked; ++request) {
    const std::int64_t at = request * lengths.strides[0];
    if (random() % 5 == 0) put_index(lengths, at, room + 3);
    if (random() % 20 == 0) put_index(lengths, at, -2);
  }
  const bool shared = repeats(table);
  for (std::int64_t request = 0; request < table.shape[0]; ++request) {
    const std::int64_t length = index_at(lengths, request * lengths.strides[0]);
    for (std::int64_t entry = 0; entry < table.shape[1]; ++entry) {
      const bool is_used = shared || entry * shape.page < length;
      const std::int64_t at = request * table.strides[0] + entry * table.strides[1];
      if (is_used && !checked && random() % 10 == 0) put_index(table, at, no_index(shape.num_blocks, false, random));
      if (!is_used && random() % 2 == 0)
        put_index(table, at, std::numeric_limits<std::int32_t>::max() - random_up_to(5, random));
    }
  }
}

void spoil_slots(const OpCall& call, std::mt19937_64& random) {
  const TensorView& slots = call.inputs[4];
  const ops::PagedCache cache = append_call(call).iteration.caches[0];
  for (std::int64_t token = 0; token < slots.shape[0]; ++token)
    if (random() % 8 == 0)
      put_index(slots, token * slots.strides[0], no_index(cache.num_blocks * cache.page, is_checked(call), random));
}

void spoil_swap(const OpCall& call, std::mt19937_64& random) {
  const TensorView& mapping = call.inputs[2];
  for (std::int64_t pair = 0; pair < mapping.shape[0]; ++pair)
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
      if (random() % 8 == 0)
        put_index(mapping, pair * mapping.strides[0] + static_cast<std::int64_t>(side) * mapping.strides[1],
                  no_index(call.inputs[1 - side].shape[0], is_checked(call), random));
}

SkippedWork skipped_by_paged_gather(const OpCall& call) {
  const TensorView &table = call.inputs[1], &lengths = call.inputs[2];
  const CacheShape shape = cache_shape(call.inputs[0].shape, page_layout("kv_gather_paged", call.attributes));
  const std::int64_t max_len = call.attributes.get_int("max_len");
  SkippedWork work{table.shape[0] * max_len, table.shape[0] * max_len, "tokens of 'out'"};
  for (std::int64_t request = 0; request < table.shape[0]; ++request) {
    const std::int64_t length = std::min(index_at(lengths, request * lengths.strides[0]), max_len);
    for (std::int64_t entry = 0; entry < table.shape[1] && entry * shape.page < length; ++entry) {
      const std::int64_t block = index_at(table, request * table.strides[0] + entry * table.strides[1]);
      if (block >= 0 && block < shape.num_blocks) work.skipped -= std::min(shape.page, length - entry * shape.page);
    }
  }
  return work;
}

}  // namespace kiln::kv_cache
