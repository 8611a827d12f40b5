#include "ops/kv_cache/paged_examples.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include "ops/elementwise/element.hpp"
#include "ops/kv_cache/paged_call.hpp"

namespace kiln::kv_cache {
namespace {

template <typename T, std::size_t kCount>
T pick(const T (&choices)[kCount], std::mt19937_64& random) {
  return choices[random() % kCount];
}

std::int64_t up_to(std::int64_t most, std::mt19937_64& random) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
}

DType random_dtype(std::mt19937_64& random) {
  return kAllDTypes[random() % kAllDTypes.size()];
}

DType random_index_dtype(std::mt19937_64& random) {
  return random() % 2 == 0 ? DType::i64 : DType::i32;
}

struct RandomCache {
  std::int64_t num_blocks, page, heads, width;
  bool nhd;
  Dims shape() const { return nhd ? Dims{num_blocks, page, heads, width} : Dims{num_blocks, heads, page, width}; }
  std::string layout() const { return nhd ? "NHD" : "HND"; }
};

RandomCache random_cache(std::mt19937_64& random) {
  constexpr std::int64_t kPages[] = {1, 2, 3, 5, 8, 16, 16, 32}, kHeads[] = {1, 2, 3, 8},
                         kWidths[] = {1, 3, 8, 16, 20, 64, 80, 128, 128, 576};
  RandomCache cache{1 + up_to(20, random), pick(kPages, random), pick(kHeads, random), pick(kWidths, random),
                    random() % 2 == 0};
  if (random() % 30 == 0) cache.num_blocks = 0;
  if (random() % 40 == 0) cache.width = 0;
  return cache;
}

void put_index(const TensorView& view, std::int64_t offset, std::int64_t value) {
  elementwise::store_element<std::int64_t>(static_cast<std::byte*>(view.data) + offset * itemsize_bytes(view.dtype),
                                           view.dtype, value);
}

std::int64_t index_at(const TensorView& view, std::int64_t offset) {
  return elementwise::load_element<std::int64_t>(
      static_cast<std::byte*>(view.data) + offset * itemsize_bytes(view.dtype), view.dtype);
}

/// Whether entries share memory, so that each cannot have a value of its own.
bool repeats(const TensorView& view) {
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] == 0) return true;
  return false;
}

/// Numbers from 0 to count - 1, in random order.
std::vector<std::int64_t> shuffled(std::int64_t count, std::mt19937_64& random) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

/// What is no index below `limit`: negative, or where a check would not refuse the call too large.
std::int64_t no_index(std::int64_t limit, bool checked, std::mt19937_64& random) {
  const std::int64_t negative[] = {-1, -7, std::numeric_limits<std::int32_t>::min()};
  if (checked || random() % 2 == 0) return pick(negative, random);
  return limit + up_to(100, random);
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
  const std::int64_t requests = up_to(5, random), max_blocks = up_to(random() % 8 == 0 ? 40 : 6, random);
  const std::int64_t max_len = up_to((max_blocks + 1) * cache.page, random);
  return {
      {{random_dtype(random), cache.shape()},
       {random_index_dtype(random), {requests, max_blocks}},
       {random_index_dtype(random), {requests}}},
      {{"max_len", max_len}, {"layout", cache.layout()}, {"check_bounds", random() % 4 == 0 && cache.num_blocks > 0}}};
}

Example random_append(std::mt19937_64& random) {
  const RandomCache cache = random_cache(random);
  const std::int64_t tokens = up_to(random() % 8 == 0 ? 300 : 40, random);
  const DType dtype = random_dtype(random);
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
  const std::int64_t layers = up_to(4, random), tokens = up_to(40, random);
  const DType dtype = random_dtype(random);
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
  const DType dtype = random_dtype(random);
  const std::int64_t width = pick(kWidths, random);
  const auto blocks = [&] {
    const std::int64_t count = up_to(20, random);
    return random() % 2 == 0 ? Dims{count, width} : Dims{count, 1, width};
  };
  const Dims dst = blocks();
  Dims src = dst;
  src[0] = up_to(20, random);
  return {{{dtype, dst}, {dtype, src}, {random_index_dtype(random), {up_to(30, random), 2}}},
          {{"check_bounds", random() % 4 == 0}}};
}

void fill_paged_gather(const OpCall& call, std::mt19937_64& random) {
  const TensorView &cache = call.inputs[0], &table = call.inputs[1], &lengths = call.inputs[2];
  const CacheShape shape = cache_shape(cache.shape, page_layout("kv_gather_paged", call.attributes));
  const bool checked = is_checked(call);
  const std::int64_t room = std::min(call.attributes.get_int("max_len"), table.shape[1] * shape.page);
  for (std::int64_t request = 0; request < table.shape[0]; ++request) {
    const std::int64_t length = random() % 5 == 0 && !checked ? room + 3 : up_to(room, random);
    put_index(lengths, request * lengths.strides[0], random() % 20 == 0 && !checked ? -2 : length);
  }
  const bool shared = repeats(table);
  for (std::int64_t request = 0; request < table.shape[0]; ++request) {
    const std::int64_t length = index_at(lengths, request * lengths.strides[0]);
    for (std::int64_t entry = 0; entry < table.shape[1]; ++entry) {
      const bool is_used = shared || entry * shape.page < length;
      std::int64_t block = shape.num_blocks > 0 ? up_to(shape.num_blocks - 1, random) : -1;
      if (is_used && !checked && random() % 10 == 0) block = no_index(shape.num_blocks, false, random);
      if (!is_used && random() % 2 == 0) block = std::numeric_limits<std::int32_t>::max() - up_to(5, random);
      put_index(table, request * table.strides[0] + entry * table.strides[1], block);
    }
  }
}

void fill_append(const OpCall& call, std::mt19937_64& random) {
  const TensorView& slots = call.inputs[4];
  const CacheShape shape = cache_shape(call.inputs[2].shape, page_layout("kv_append", call.attributes));
  const std::int64_t limit = shape.num_blocks * shape.page;
  const std::vector<std::int64_t> distinct = shuffled(limit, random);
  for (std::int64_t token = 0; token < slots.shape[0]; ++token) {
    const bool skipped = repeats(slots) || token >= limit || random() % 8 == 0;
    put_index(slots, token * slots.strides[0],
              skipped ? no_index(limit, is_checked(call), random) : distinct[static_cast<std::size_t>(token)]);
  }
}

void fill_append_layers(const OpCall& call, std::mt19937_64& random) {
  const TensorView& slots = call.inputs[4];
  const std::int64_t limit = call.attributes.get_int("num_blocks") * call.attributes.get_int("page");
  for (std::int64_t token = 0; token < slots.shape[0]; ++token)
    put_index(slots, token * slots.strides[0], no_index(limit, is_checked(call), random));
}

void fill_swap(const OpCall& call, std::mt19937_64& random) {
  const TensorView& mapping = call.inputs[2];
  const std::int64_t destinations = call.inputs[0].shape[0], sources = call.inputs[1].shape[0];
  const std::vector<std::int64_t> distinct = shuffled(destinations, random);
  for (std::int64_t pair = 0; pair < mapping.shape[0]; ++pair) {
    const bool shared = repeats(mapping);
    const bool skips_source = shared || sources == 0 || random() % 8 == 0,
               skips = shared || pair >= destinations || random() % 8 == 0;
    const std::int64_t at = pair * mapping.strides[0];
    put_index(mapping, at, skips_source ? no_index(sources, is_checked(call), random) : up_to(sources - 1, random));
    put_index(mapping, at + mapping.strides[1],
              skips ? no_index(destinations, is_checked(call), random) : distinct[static_cast<std::size_t>(pair)]);
  }
}

}  // namespace kiln::kv_cache
