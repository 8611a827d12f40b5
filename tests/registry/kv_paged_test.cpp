#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

class KvGatherPaged : public DevicesTest {};

Attributes gathered(std::int64_t max_len, const std::string& layout = "NHD", bool checked = false) {
  return {{"max_len", max_len}, {"layout", layout}, {"check_bounds", checked}};
}

TEST_F(KvGatherPaged, PutsPagesInOrderAndZerosBehindThem) {
  for (const Device device : devices_) {
    // Two heads of one element; the element of block b, place p, head h is 100 b + 10 p + h + 1.
    std::vector<std::int64_t> elements;
    for (std::int64_t block = 0; block < 4; ++block)
      for (std::int64_t place = 0; place < 2; ++place)
        for (std::int64_t head = 0; head < 2; ++head) elements.push_back(100 * block + 10 * place + head + 1);
    const Tensor cache = make_integers(DType::i16, {4, 2, 2, 1}, elements, device);
    const Tensor table = make_integers(DType::i32, {2, 3}, {2, 0, 3, 1, -1, 77}, device);
    const Tensor lengths = make_integers(DType::i64, {2}, {5, 1}, device);
    const Tensor out = dispatch_gpu_op("kv_gather_paged", {cache, table, lengths}, gathered(6));
    EXPECT_EQ(out.shape(), (Dims{2, 2, 6, 1}));
    EXPECT_EQ(read_bits(out), (std::vector<std::int64_t>{201, 211, 1, 11, 301, 0, 202, 212, 2, 12, 302, 0,  //
                                                         101, 0,   0, 0,  0,   0, 102, 0,   0, 0,  0,   0}))
        << to_string(device);
  }
}

TEST_F(KvGatherPaged, LayoutsOfOneCacheGiveTheSameRows) {
  for (const Device device : devices_) {
    const Tensor nhd = make_patterns({9, 16, 4, 64}, 30000, device);
    const Tensor table = make_integers(DType::i32, {3, 2}, {8, 1, 0, 5, 3, 3}, device);
    const Tensor lengths = make_integers(DType::i32, {3}, {32, 17, 0}, device);
    const auto expected = read_bits(dispatch_gpu_op("kv_gather_paged", {nhd, table, lengths}, gathered(40)));
    // The same memory seen as [blocks, H, page, D], and a dense cache of that shape.
    const Tensor hnd = permuted(nhd, {0, 2, 1, 3});
    EXPECT_EQ(read_bits(dispatch_gpu_op("kv_gather_paged", {hnd, table, lengths}, gathered(40, "HND"))), expected);
    const Tensor dense = dispatch_gpu_op("copy", {hnd});
    EXPECT_EQ(read_bits(dispatch_gpu_op("kv_gather_paged", {dense, table, lengths}, gathered(40, "HND"))), expected);
  }
}

TEST_F(KvGatherPaged, KeysAndValuesMayLieInOneCache) {
  for (const Device device : devices_) {
    const Tensor both = make_patterns({6, 2, 16, 2, 32}, 1, device);  // [blocks, keys or values, page, H, D]
    const Tensor table = make_integers(DType::i64, {1, 2}, {4, 2}, device);
    const Tensor lengths = make_integers(DType::i64, {1}, {20}, device);
    const Tensor values = dispatch_gpu_op("kv_gather_paged", {selected(both, 1, 1), table, lengths}, gathered(20));
    const std::vector<std::int64_t> got = read_bits(values);
    // Token 17 is place 1 of block 2; element 0 of head 1 comes after those of head 0.
    EXPECT_EQ(got.at(static_cast<std::size_t>((20 + 17) * 32)), 1 + (2 * 2 + 1) * 1024 + 1 * 64 + 32);
  }
}

TEST_F(KvGatherPaged, WhatNoSequenceUsesIsNotLookedAt) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  for (const Device device : devices_) {
    const Tensor cache = make_patterns({2, 4, 1, 8}, 5, device);
    const Tensor table = make_integers(DType::i64, {2, 3}, {1, kLargest, -kLargest, kLargest, 1, 0}, device);
    const Tensor lengths = make_integers(DType::i64, {2}, {4, -3}, device);
    const std::vector<std::int64_t> got =
        read_bits(dispatch_gpu_op("kv_gather_paged", {cache, table, lengths}, gathered(12)));
    EXPECT_EQ(got[0], 5 + 32);
    EXPECT_THAT(std::vector<std::int64_t>(got.begin() + 32, got.end()), Each(0));
  }
}

TEST_F(KvGatherPaged, LongSequencesAreCutAtTheOutputAndAtTheTable) {
  for (const Device device : devices_) {
    const Tensor cache = make_patterns({3, 4, 1, 2}, 100, device);
    const Tensor table = make_integers(DType::i32, {1, 2}, {2, 1}, device);
    const Tensor lengths = make_integers(DType::i64, {1}, {std::int64_t{1} << 40}, device);
    EXPECT_EQ(read_bits(dispatch_gpu_op("kv_gather_paged", {cache, table, lengths}, gathered(3))),
              (std::vector<std::int64_t>{116, 117, 118, 119, 120, 121}));
    const std::vector<std::int64_t> whole =
        read_bits(dispatch_gpu_op("kv_gather_paged", {cache, table, lengths}, gathered(9)));
    EXPECT_EQ(whole[15], 115);
    EXPECT_THAT(std::vector<std::int64_t>(whole.begin() + 16, whole.end()), Each(0));
  }
}

TEST_F(KvGatherPaged, ChecksBoundsWhereAsked) {
  for (const Device device : devices_) {
    const Tensor cache = make_patterns({3, 4, 1, 2}, 100, device);
    const Tensor table = make_integers(DType::i32, {2, 2}, {2, 99, 1, 3}, device);
    const auto run = [&](std::vector<std::int64_t> lengths, bool checked, const Tensor& out) {
      dispatch_gpu_op("kv_gather_paged", {cache, table, make_integers(DType::i32, {2}, lengths, device)},
                      gathered(8, "NHD", checked), {.outputs = std::span(&out, 1)});
    };
    const Tensor out = make_patterns({2, 1, 8, 2}, 7, device);
    const std::vector<std::int64_t> before = read_bits(out);
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run({4, 5}, true, out); }),
                Says("'block_table'[1, 1] is 3", "blocks 0 to 2"));
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run({4, 9}, true, out); }),
                Says("'seq_lens'[1] is 9", "0 to 8"));
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run({-1, 9}, true, out); }),
                HasSubstr("'seq_lens'[0] is -1"));
    EXPECT_EQ(read_bits(out), before) << "a refused call wrote";
    run({4, 4}, true, out);  // neither length reaches the bad entries
    EXPECT_EQ(read_bits(out)[0], 116);
    run({4, 5}, false, out);
    EXPECT_EQ(read_bits(out)[16 + 8], 0) << "a token of no block reads as zeros";
  }
}

}  // namespace
}  // namespace kiln::test
