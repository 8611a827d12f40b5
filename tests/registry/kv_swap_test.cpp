#include <cstdint>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

class KvSwap : public DevicesTest {};

TEST_F(KvSwap, CopiesPairsOfBlocks) {
  for (const Device device : devices_) {
    const Tensor src = make_patterns({4, 3}, 100, device), dst = make_patterns({3, 3}, 1, device);
    // Duplicates as source, either side negative, either side no block.
    const Tensor mapping = make_integers(DType::i32, {6, 2}, {3, 0, 3, 2, -1, 1, 0, -5, 4, 1, 0, 3}, device);
    const Tensor changed = dispatch_gpu_op("swap_blocks", {dst, src, mapping});
    EXPECT_EQ(changed.data(), dst.data());
    EXPECT_EQ(read_bits(dst), (std::vector<std::int64_t>{109, 110, 111, 4, 5, 6, 109, 110, 111}));
  }
}

TEST_F(KvSwap, LargeBlocksWithGapsBetweenThem) {
  for (const Device device : devices_) {
    constexpr std::int64_t kWidth = 100'000;  // several pieces, the last one partly full
    const Tensor memory = make_patterns({3, kWidth + 8}, 0, device),
                 copies = make_patterns({2, kWidth + 24}, 0, device);
    const Tensor src = view_of(memory, {3, 10, kWidth / 10}, {kWidth + 8, kWidth / 10, 1});
    const Tensor dst = view_of(copies, {2, 10, kWidth / 10}, {kWidth + 24, kWidth / 10, 1});
    dispatch_gpu_op("swap_blocks", {dst, src, make_integers(DType::i64, {2, 2}, {2, 0, 0, 1}, device)});
    const std::vector<std::int64_t> source = read_bits(memory), got = read_bits(copies);
    const auto block = [&](const std::vector<std::int64_t>& bits, std::int64_t start) {
      return std::vector<std::int64_t>(bits.begin() + start, bits.begin() + start + kWidth);
    };
    EXPECT_EQ(block(got, 0), block(source, 2 * (kWidth + 8)));
    EXPECT_EQ(block(got, kWidth + 24), block(source, 0));
    EXPECT_EQ(got[kWidth], kWidth % 65536) << "the gap was written";
  }
}

TEST_F(KvSwap, ChecksBoundsWhereAsked) {
  for (const Device device : devices_) {
    const Tensor src = make_patterns({4, 3}, 100, device), dst = make_patterns({3, 3}, 1, device);
    const auto run = [&](std::vector<std::int64_t> pairs) {
      const auto count = static_cast<std::int64_t>(pairs.size()) / 2;
      dispatch_gpu_op("swap_blocks", {dst, src, make_integers(DType::i64, {count, 2}, pairs, device)},
                      {{"check_bounds", true}});
    };
    const std::vector<std::int64_t> before = read_bits(dst);
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run({0, 0, 1, 3, 4, 1}); }),
                Says("'block_mapping'[1, 1] is 3", "the blocks of 'dst'"));
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run({0, 0, 4, 3}); }),
                Says("'block_mapping'[1, 0] is 4", "the blocks of 'src'"));
    EXPECT_EQ(read_bits(dst), before) << "a refused call wrote";
    run({3, 2, -1, 7});
    EXPECT_EQ(read_bits(dst)[6], 109);
  }
}

}  // namespace
}  // namespace kiln::test
