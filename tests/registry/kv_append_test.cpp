#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

class KvAppend : public DevicesTest {};

TEST_F(KvAppend, StoresTokensAtTheirSlotsAndNothingElse) {
  for (const Device device : devices_) {
    const Tensor key = make_integers(DType::i8, {4, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, device);
    const Tensor value = make_integers(DType::i8, {4, 1, 2}, {-1, -2, -3, -4, -5, -6, -7, -8}, device);
    const Tensor key_cache = make_integers(DType::i8, {2, 2, 1, 2}, std::vector<std::int64_t>(8, 99), device);
    const Tensor value_cache = make_integers(DType::i8, {2, 2, 1, 2}, std::vector<std::int64_t>(8, 98), device);
    const Tensor slots = make_integers(DType::i64, {4}, {3, -1, 0, 4}, device);  // 4 is behind the last slot
    const std::vector<Tensor> changed =
        dispatch_gpu_op_all("kv_append", std::vector{key, value, key_cache, value_cache, slots});
    ASSERT_EQ(changed.size(), 2u);
    EXPECT_EQ(changed[0].data(), key_cache.data());
    EXPECT_EQ(changed[1].data(), value_cache.data());
    EXPECT_EQ(read_bits(key_cache), (std::vector<std::int64_t>{5, 6, 99, 99, 99, 99, 1, 2}));
    EXPECT_EQ(read_bits(value_cache), (std::vector<std::int64_t>{251, 250, 98, 98, 98, 98, 255, 254}));
  }
}

TEST_F(KvAppend, WhatWasAppendedIsGatheredBack) {
  for (const Device device : devices_) {
    // Keys and values are parts of one projection, [T, H + 2 H, D], and the caches parts of one tensor.
    const Tensor projection = make_patterns({24, 12, 64}, 20000, device);
    const Tensor key = view_of(projection, {24, 4, 64}, {768, 64, 1}, 4 * 64);
    const Tensor value = view_of(projection, {24, 4, 64}, {768, 64, 1}, 8 * 64);
    const Tensor both = make_patterns({5, 2, 8, 4, 64}, 0, device);
    std::vector<std::int64_t> slots(24);
    std::iota(slots.begin(), slots.end(), 16);  // blocks 2, 3, 4
    for (const std::string layout : {"NHD", "HND"}) {
      const auto cache = [&](std::int64_t which) {
        const Tensor nhd = selected(both, 1, which);
        return layout == "NHD" ? nhd : permuted(nhd, {0, 2, 1, 3});
      };
      memset_bytes(both, 0, Stream::default_of(device));
      dispatch_gpu_op("kv_append", {key, value, cache(0), cache(1), make_integers(DType::i32, {24}, slots, device)},
                      {{"layout", layout}});
      const Tensor table = make_integers(DType::i32, {1, 3}, {2, 3, 4}, device);
      const Tensor length = make_integers(DType::i32, {1}, {24}, device);
      for (const std::int64_t which : {0, 1}) {
        const Tensor rows = dispatch_gpu_op("kv_gather_paged", {cache(which), table, length},
                                            {{"max_len", std::int64_t{24}}, {"layout", layout}});
        const Tensor expected = dispatch_gpu_op("copy", {permuted(which == 0 ? key : value, {1, 0, 2})});
        EXPECT_EQ(read_bits(rows), read_bits(expected)) << layout << " " << which << " on " << to_string(device);
      }
    }
  }
}

TEST_F(KvAppend, ChecksBoundsWhereAsked) {
  for (const Device device : devices_) {
    const Tensor key = make_patterns({5000, 1, 4}, 1, device);
    const Tensor key_cache = make_patterns({3, 4, 1, 4}, 7, device),
                 value_cache = make_patterns({3, 4, 1, 4}, 9, device);
    std::vector<std::int64_t> slots(5000, -1);
    slots[4321] = 12;
    slots[4400] = 13;
    slots[1] = 2;
    const std::vector<Tensor> inputs = {key, key, key_cache, value_cache,
                                        make_integers(DType::i64, {5000}, slots, device)};
    const std::vector<std::int64_t> before = read_bits(key_cache);
    EXPECT_THAT(
        usage_message(UsageError::Kind::value, [&] { dispatch_gpu_op("kv_append", inputs, {{"check_bounds", true}}); }),
        Says("'slot_mapping'[4321] is 12", "less than 12", "3 blocks of 4"));
    EXPECT_EQ(read_bits(key_cache), before) << "a refused call wrote";
    dispatch_gpu_op("kv_append", inputs);
    EXPECT_EQ(read_bits(key_cache)[8], 5);
  }
}

/// Memory that exists where it is touched: on the CPU a mapping without pages, on a GPU an allocation.
Tensor make_huge(const Dims& shape, Device device) {
  if (device.is_cuda()) return empty(shape, DType::u8, device);
  const auto size = static_cast<std::size_t>(num_elements(shape));
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {dense_view(memory, DType::u8, shape),
          std::shared_ptr<void>(memory, [size](void* mapped) { munmap(mapped, size); })};
}

TEST_F(KvAppend, OffsetsBeyond4GiB) {
  constexpr std::int64_t kBlocks = 300'000, kPage = 16, kWidth = 1024;  // 4.6 GiB
  for (const Device device : devices_)
    for (const std::string layout : {"NHD", "HND"}) {
      const Dims shape = layout == "NHD" ? Dims{kBlocks, kPage, 1, kWidth} : Dims{kBlocks, 1, kPage, kWidth};
      const Tensor keys = make_huge(shape, device), values = make_huge(shape, device);
      std::vector<std::int64_t> rows(2 * kWidth);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i * 7 % 251);
      const Tensor key = make_integers(DType::u8, {2, 1, kWidth}, rows, device);
      const Tensor slots = make_integers(DType::i32, {2}, {kBlocks * kPage - 1, (kBlocks - 2) * kPage}, device);
      dispatch_gpu_op("kv_append", {key, key, keys, values, slots}, {{"layout", layout}});
      const Tensor table = make_integers(DType::i32, {1, 2}, {kBlocks - 2, kBlocks - 1}, device);
      const Tensor length = make_integers(DType::i32, {1}, {32}, device);
      const std::vector<std::int64_t> got = read_bits(dispatch_gpu_op(
          "kv_gather_paged", {values, table, length}, {{"max_len", std::int64_t{32}}, {"layout", layout}}));
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + kWidth, rows.begin() + kWidth)) << to_string(device);
      EXPECT_TRUE(std::equal(got.end() - kWidth, got.end(), rows.begin())) << to_string(device);
      const Tensor copies =
          make_integers(DType::u8, {1, kPage * kWidth}, std::vector<std::int64_t>(kPage * kWidth), device);
      const Tensor blocks = view_of(keys, {kBlocks, kPage * kWidth}, {kPage * kWidth, 1});
      dispatch_gpu_op("swap_blocks", {copies, blocks, make_integers(DType::i64, {1, 2}, {kBlocks - 1, 0}, device)});
      const std::vector<std::int64_t> swapped = read_bits(copies);
      EXPECT_TRUE(std::equal(swapped.end() - kWidth, swapped.end(), rows.begin())) << to_string(device);
    }
}

/// Layers' caches at addresses of their own, `offset` elements behind a multiple of 16 bytes.
struct Layers {
  std::vector<Tensor> caches;
  std::vector<std::int64_t> addresses;

  Layers(std::int64_t count, const Dims& shape, const Dims& strides, std::int64_t offset, Device device) {
    for (std::int64_t layer = 0; layer < count; ++layer) {
      const std::int64_t room = 16 + shape[0] * strides[0];
      const Tensor memory = make_patterns({room}, 1000 * layer, device);
      caches.push_back(view_of(memory, shape, strides, offset));
      addresses.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(caches.back().data())));
    }
  }
  Tensor table(Device device) const {
    return make_integers(DType::i64, {static_cast<std::int64_t>(addresses.size())}, addresses, device);
  }
};

TEST_F(KvAppend, AllLayersAtOnceAreAsLayerByLayer) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const Device device : devices_)
    for (const std::string layout : {"NHD", "HND"})
      for (const std::int64_t offset : {0, 1, 8}) {
        constexpr std::int64_t kLayers = 3, kTokens = 20, kHeads = 2, kWidth = 24, kBlocks = 4, kPage = 8;
        const Tensor key = make_patterns({kLayers, kTokens, kHeads, kWidth}, 3, device);
        const Tensor value = make_patterns({kLayers, kTokens, kHeads, kWidth}, 40000, device);
        const Dims shape =
            layout == "NHD" ? Dims{kBlocks, kPage, kHeads, kWidth} : Dims{kBlocks, kHeads, kPage, kWidth};
        Dims strides = contiguous_strides(shape);
        strides[0] += 48;  // a gap behind each block
        const Layers keys(kLayers, shape, strides, offset, device), values(kLayers, shape, strides, offset, device);
        const Layers wanted_keys(kLayers, shape, strides, offset, device),
            wanted_values(kLayers, shape, strides, offset, device);
        std::vector<std::int64_t> slots(kBlocks * kPage);
        std::iota(slots.begin(), slots.end(), 0);
        std::shuffle(slots.begin(), slots.end(), random);
        slots.resize(kTokens);
        slots[7] = -1;
        slots[9] = kBlocks * kPage;
        const Tensor mapping = make_integers(DType::i32, {kTokens}, slots, device);
        dispatch_gpu_op("kv_append_layers", {key, value, keys.table(device), values.table(device), mapping},
                        {{"num_blocks", kBlocks}, {"page", kPage}, {"block_stride", strides[0]}, {"layout", layout}});
        for (std::size_t layer = 0; layer < kLayers; ++layer) {
          const auto index = static_cast<std::int64_t>(layer);
          dispatch_gpu_op("kv_append",
                          {selected(key, 0, index), selected(value, 0, index), wanted_keys.caches[layer],
                           wanted_values.caches[layer], mapping},
                          {{"layout", layout}});
          EXPECT_EQ(read_bits(keys.caches[layer]), read_bits(wanted_keys.caches[layer]))
              << layout << " +" << offset << ", layer " << layer << " on " << to_string(device);
          EXPECT_EQ(read_bits(values.caches[layer]), read_bits(wanted_values.caches[layer]));
        }
      }
}

TEST_F(KvAppend, LayersWithCheckedSlots) {
  for (const Device device : devices_) {
    const Tensor key = make_patterns({2, 3, 1, 8}, 3, device);
    const Layers caches(2, {4, 4, 1, 8}, {32, 8, 8, 1}, 0, device), others(2, {4, 4, 1, 8}, {32, 8, 8, 1}, 0, device);
    const Attributes checked = {{"num_blocks", std::int64_t{4}}, {"page", std::int64_t{4}}, {"check_bounds", true}};
    const auto run = [&](std::vector<std::int64_t> slots) {
      dispatch_gpu_op(
          "kv_append_layers",
          {key, key, caches.table(device), others.table(device), make_integers(DType::i64, {3}, slots, device)},
          checked);
    };
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run({0, 1, 16}); }),
                Says("kv_append_layers", "'slot_mapping'[2] is 16"));
    run({15, 1, -1});
    EXPECT_EQ(read_bits(caches.caches[1]).at(15 * 8), 3 + 24);
  }
}

/// What refuses a call of two layers, of `num_blocks` blocks of 4 tokens, whose second cache of keys lies at `address`.
std::string problem_at(std::intptr_t address, bool check_bounds, Device device, std::int64_t num_blocks = 4) {
  const Tensor key = make_patterns({2, 3, 1, 8}, 3, device), cache = make_patterns({4, 4, 1, 8}, 0, device);
  const auto there = reinterpret_cast<std::intptr_t>(cache.data());
  const auto table = [&](std::int64_t second) { return make_integers(DType::i64, {2}, {there, second}, device); };
  return usage_message(UsageError::Kind::value, [&] {
    dispatch_gpu_op("kv_append_layers",
                    {key, key, table(address), table(there), make_integers(DType::i64, {3}, {0, 1, 2}, device)},
                    {{"num_blocks", num_blocks}, {"page", std::int64_t{4}}, {"check_bounds", check_bounds}});
    synchronize(Stream::default_of(device));
  });
}

TEST_F(KvAppend, ANullAddressIsRefused) {
  for (const Device device : devices_)
    for (const bool check_bounds : {false, true}) {
      if (device.is_cuda() && !check_bounds) continue;  // a look at the table would wait for the stream
      EXPECT_THAT(problem_at(0, check_bounds, device),
                  Says("kv_append_layers", "'key_caches'[1] is a null address", "(4, 32)"));
    }
}

TEST_F(KvAppend, AReplayLooksAtAddressesToo) {
  const Device cpu = Device::cpu();
  const Tensor key = make_patterns({1, 1, 1, 8}, 3, cpu), cache = make_patterns({4, 4, 1, 8}, 0, cpu);
  const auto table = [&] {
    return make_integers(DType::i64, {1}, {reinterpret_cast<std::intptr_t>(cache.data())}, cpu);
  };
  const Tensor keys = table(), values = table();
  const Tensor slots = make_integers(DType::i64, {1}, {0}, cpu);
  const auto call = [&] {
    dispatch_gpu_op("kv_append_layers", {key, key, keys, values, slots},
                    {{"num_blocks", std::int64_t{4}}, {"page", std::int64_t{4}}});
  };
  call();
  const Graph graph = capture(Stream::default_of(cpu), call);
  graph.launch(Stream::default_of(cpu));
  keys.data_as<std::int64_t>()[0] = 0;
  EXPECT_THROW(graph.launch(Stream::default_of(cpu)), UsageError);
}

TEST_F(KvAppend, WithACheckAddressesMustBeOfMemoryThatIsLargeEnough) {
  for (const Device device : devices_) {
    if (!device.is_cuda()) continue;
    const std::vector<std::int64_t> on_host(256);
    EXPECT_THAT(problem_at(reinterpret_cast<std::intptr_t>(on_host.data()), true, device),
                Says("'key_caches'[1]", "no memory"));
    constexpr std::int64_t kTebibyteOfBlocks = std::int64_t{1} << 34;
    const Tensor there = make_patterns({4, 4, 1, 8}, 0, device);
    EXPECT_THAT(problem_at(reinterpret_cast<std::intptr_t>(there.data()), true, device, kTebibyteOfBlocks),
                Says("'key_caches'[0]", "1.0 TiB in all"));
  }
}

}  // namespace
}  // namespace kiln::test
