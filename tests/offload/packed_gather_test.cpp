#include "offload/packed_gather.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

using Integers = std::vector<std::int64_t>;

/// 0, 1, 2, ... cut off to bytes by a step that shares no divisor with 256.
Integers counting(std::int64_t count, std::int64_t first) {
  Integers values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (first + static_cast<std::int64_t>(i) * 7) & 0xff;
  return values;
}

class PackedGatherTest : public DevicesTest {};

TEST_F(PackedGatherTest, RowsOfManyChunksArrive) {
  constexpr std::int64_t kSrcRows = 500, kDstRows = 331, kWidth = 20, kStride = 24;
  const Integers source = counting(kSrcRows * kStride, 1), before = counting(kDstRows * kStride, 99);
  const Tensor src_memory = make_integers(DType::u8, {kSrcRows * kStride}, source, Device::cpu());
  const Tensor src = view_of(src_memory, {kSrcRows, 2, kWidth / 2}, {kStride, kWidth / 2, 1});
  Integers pairs, expected = before;
  for (std::int64_t i = 0; i < kDstRows; ++i) {
    const std::int64_t from = i % 11 == 5 ? -1 : i * 37 % kSrcRows, to = i % 13 == 2 ? -7 : i * 5 % kDstRows;
    pairs.insert(pairs.end(), {from, to});
    if (from >= 0 && to >= 0) std::copy_n(source.begin() + from * kStride, kWidth, expected.begin() + to * kStride);
  }
  for (const Device device : devices_)
    for (const int depth : {1, 2, 5})
      // Chunks of one row, of several, and one for all; pairs on either side.
      for (const std::int64_t chunk_bytes : {1, 700, 1 << 20})
        for (const Device indices_on : {Device::cpu(), device}) {
          const Tensor dst_memory = make_integers(DType::u8, {kDstRows * kStride}, before, device);
          const Tensor dst = view_of(dst_memory, {kDstRows, 2, kWidth / 2}, {kStride, kWidth / 2, 1});
          PackedGather gather(device, {.chunk_bytes = chunk_bytes, .depth = depth});
          const DType index = depth == 2 ? DType::i64 : DType::i32;
          gather(dst, src, make_integers(index, {1, kDstRows, 2}, pairs, indices_on), Stream::default_of(device));
          EXPECT_EQ(read_bits(dst_memory), expected)
              << to_string(device) << ", depth " << depth << ", chunks of " << chunk_bytes << " bytes";
        }
}

TEST_F(PackedGatherTest, SourceMayChangeWhenTheCallReturns) {
  constexpr std::int64_t kRows = 2000, kWidth = 656;
  const Integers source = counting(kRows * kWidth, 3);
  Integers pairs;
  for (std::int64_t i = 0; i < kRows; ++i) pairs.insert(pairs.end(), {kRows - 1 - i, i});
  for (const Device device : devices_) {
    const Tensor dst = make_integers(DType::u8, {kRows, kWidth}, Integers(source.size(), 0), device);
    PackedGather gather(device, {.chunk_bytes = 50'000});
    const Tensor indices = make_integers(DType::i32, {2, kRows / 2, 2}, pairs, Device::cpu());
    const OwnedStream stream(device);
    for (int repeat = 0; repeat < 3; ++repeat) {  // buffers are used again
      const Tensor src = make_integers(DType::u8, {kRows, kWidth}, source, Device::cpu());
      gather(dst, src, indices, stream);
      std::memset(src.data(), 0, source.size());
    }
    synchronize(stream);
    const Integers got = read_bits(dst);
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{777}, kRows - 1})
      EXPECT_TRUE(std::equal(got.begin() + row * kWidth, got.begin() + (row + 1) * kWidth,
                             source.begin() + (kRows - 1 - row) * kWidth))
          << "row " << row << " on " << to_string(device);
  }
}

TEST_F(PackedGatherTest, NothingToCopy) {
  for (const Device device : devices_) {
    const Tensor src = make_integers(DType::u8, {2, 3}, counting(6, 0), Device::cpu());
    const Tensor dst = make_integers(DType::u8, {2, 3}, Integers(6, 9), device);
    PackedGather gather(device);
    gather(dst, src, empty({3, 0, 2}, DType::i32, device), Stream::default_of(device));
    gather(dst, src, make_integers(DType::i32, {1, 1, 2}, {-1, 0}, device), Stream::default_of(device));
    EXPECT_EQ(read_bits(dst), Integers(6, 9));
  }
}

TEST_F(PackedGatherTest, Errors) {
  EXPECT_THAT(usage_message(UsageError::Kind::value, [] { PackedGather(Device::cpu(), {.depth = 0}); }),
              HasSubstr("depth is 0"));
  EXPECT_THAT(usage_message(UsageError::Kind::value, [] { PackedGather(Device::cpu(), {.chunk_bytes = -4}); }),
              HasSubstr("chunk_bytes is -4"));
  for (const Device device : devices_) {
    const Tensor src = make_integers(DType::u8, {4, 3}, counting(12, 0), Device::cpu());
    const Tensor dst = make_integers(DType::u8, {2, 3}, Integers(6, 9), device);
    PackedGather gather(device);
    const auto run = [&](const Tensor& to, const Tensor& from, const Integers& pairs) {
      const auto count = static_cast<std::int64_t>(pairs.size() / 2);
      gather(to, from, make_integers(DType::i32, {1, count, 2}, pairs, Device::cpu()), Stream::default_of(device));
    };
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run(dst, src, {3, 1, 4, 0}); }),
                Says("'indices'[0, 1, 0] is 4", "the rows of 'src'"));
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run(dst, src, {0, 0, 1, 2}); }),
                Says("'indices'[0, 1, 1] is 2", "the rows of 'dst'"));
    EXPECT_EQ(read_bits(dst), Integers(6, 9)) << "a refused call wrote";
    EXPECT_THAT(
        usage_message(UsageError::Kind::value,
                      [&] { run(dst, make_integers(DType::u8, {4, 2}, counting(8, 0), Device::cpu()), {0, 0}); }),
        HasSubstr("rows of one shape"));
    const Tensor memory = make_integers(DType::u8, {4, 3}, counting(12, 0), device);
    const Tensor first = view_of(memory, {3, 3}, {3, 1}), second = view_of(memory, {3, 3}, {3, 1}, 3);
    if (!device.is_cuda()) {
      EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run(second, first, {0, 0, 1, 1}); }),
                  Says("writes input 'dst'", "overlaps input 'src'", "3 bytes after it"));
      EXPECT_EQ(read_bits(memory), counting(12, 0)) << "a refused call wrote";
    }
    if (device.is_cuda()) {
      EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run(dst, dst, {0, 0}); }), Says("'src'", "CPU memory"));
      EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run(src, src, {0, 0}); }), Says("'dst'", "cuda:0"));
    }
  }
}

}  // namespace
}  // namespace kiln::test
