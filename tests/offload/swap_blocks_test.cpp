#include "offload/swap_blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

class SwapBlocks : public DevicesTest {};

/// Patterns in page-locked memory where `device` is a GPU.
Tensor host_patterns(const Dims& shape, std::int64_t first, Device device) {
  const Tensor patterns = make_patterns(shape, first, Device::cpu());
  if (!device.is_cuda()) return patterns;
  Tensor pinned = pinned_pool().empty(shape, patterns.dtype());
  copy(pinned, patterns, Stream::default_of(Device::cpu()));
  return pinned;
}

struct Sides {
  std::string name;
  Tensor dst, src;
};

/// The directions there are: within the device and, for a GPU, to it and from it.
std::vector<Sides> all_sides(const Dims& dst, const Dims& src, Device device) {
  std::vector<Sides> sides = {
      {"within " + to_string(device), make_patterns(dst, 1, device), make_patterns(src, 9000, device)}};
  if (device.is_cuda()) {
    sides.push_back({"to " + to_string(device), make_patterns(dst, 1, device), host_patterns(src, 9000, device)});
    sides.push_back({"from " + to_string(device), host_patterns(dst, 1, device), make_patterns(src, 9000, device)});
  }
  return sides;
}

TEST_F(SwapBlocks, EveryMethodCopiesThePairsAndNothingElse) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::int64_t kBlocks = 12, kWidth = 37;
  for (const Device device : devices_)
    for (const SwapMethod method : {SwapMethod::automatic, SwapMethod::kernel, SwapMethod::copy_engine})
      for (const Sides& sides : all_sides({kBlocks, kWidth}, {kBlocks, kWidth}, device)) {
        std::vector<std::int64_t> targets(kBlocks);
        std::iota(targets.begin(), targets.end(), 0);
        std::shuffle(targets.begin(), targets.end(), random);
        std::vector<BlockPair> pairs;
        for (int i = 0; i < 6; ++i)
          pairs.push_back({static_cast<std::int64_t>(random() % kBlocks), targets[static_cast<std::size_t>(i)]});
        pairs[2].source = -1;
        pairs[4].destination = -1;
        std::vector<std::int64_t> expected = read_bits(sides.dst);
        const std::vector<std::int64_t> source = read_bits(sides.src);
        for (const BlockPair pair : pairs)
          if (pair.source >= 0 && pair.destination >= 0)
            std::copy_n(source.begin() + pair.source * kWidth, kWidth, expected.begin() + pair.destination * kWidth);
        swap_blocks(sides.dst, sides.src, pairs, Stream::default_of(device), method);
        synchronize(Stream::default_of(device));
        EXPECT_EQ(read_bits(sides.dst), expected) << sides.name << ", method " << static_cast<int>(method);
      }
}

TEST_F(SwapBlocks, NeighboursAreOneRun) {
  for (const Device device : devices_)
    for (const Sides& sides : all_sides({8, 5}, {8, 5}, device)) {
      // Three that follow one another, one that only does so on one side, one on its own.
      swap_blocks(sides.dst, sides.src, std::vector<BlockPair>{{1, 4}, {2, 5}, {3, 6}, {4, 0}, {0, 7}},
                  Stream::default_of(device), SwapMethod::copy_engine);
      synchronize(Stream::default_of(device));
      std::vector<std::int64_t> expected(40);
      std::iota(expected.begin(), expected.end(), 1);
      std::iota(expected.begin() + 20, expected.begin() + 35, 9005);
      std::iota(expected.begin(), expected.begin() + 5, 9020);
      std::iota(expected.begin() + 35, expected.end(), 9000);
      EXPECT_EQ(read_bits(sides.dst), expected) << sides.name;
    }
}

TEST_F(SwapBlocks, NothingToCopyIsLegal) {
  for (const Device device : devices_) {
    const Tensor dst = make_patterns({3, 2}, 1, device), src = make_patterns({2, 2}, 7, device);
    const std::vector<std::int64_t> before = read_bits(dst);
    swap_blocks(dst, src, {}, Stream::default_of(device));
    swap_blocks(dst, src, std::vector<BlockPair>{{-1, 99}, {99, -1}}, Stream::default_of(device));
    const Tensor none = make_patterns({3, 0}, 1, device);
    swap_blocks(none, make_patterns({2, 0}, 1, device), std::vector<BlockPair>{{1, 1}}, Stream::default_of(device));
    EXPECT_EQ(read_bits(dst), before);
  }
}

TEST_F(SwapBlocks, RefusesWhatDoesNotFit) {
  for (const Device device : devices_) {
    const Stream stream = Stream::default_of(device);
    const Tensor dst = make_patterns({3, 2}, 1, device), src = make_patterns({4, 2}, 7, device);
    const auto refused = [&](const TensorView& to, const TensorView& from, BlockPair pair) {
      return usage_message(UsageError::Kind::value, [&] { swap_blocks(to, from, {&pair, 1}, stream); });
    };
    EXPECT_THAT(refused(dst, src, {3, 3}), Says("pair 0", "block 3 of 'dst', which has 3"));
    EXPECT_THAT(refused(dst, src, {4, 0}), HasSubstr("block 4 of 'src', which has 4"));
    EXPECT_THAT(refused(dst, make_patterns({4, 3}, 1, device), {0, 0}), HasSubstr("blocks of one shape"));
    EXPECT_THAT(refused(dst, dst, {0, 1}), HasSubstr("overlap"));
    TensorView gaps = src.view();
    gaps.shape = {2, 2};
    gaps.strides = {4, 2};
    EXPECT_THAT(refused(dst, gaps, {0, 0}), HasSubstr("not dense"));
    if (device.is_cuda()) {
      const Tensor pageable = make_patterns({4, 2}, 7, Device::cpu());
      EXPECT_THAT(refused(dst, pageable, {0, 0}), HasSubstr("page-locked"));
      EXPECT_THAT(refused(pageable, dst, {0, 0}), HasSubstr("page-locked"));
    }
  }
}

TEST_F(SwapBlocks, ACaptureKeepsTheCopies) {
  for (const Device device : devices_) {
    if (!device.is_cuda()) continue;
    const OwnedStream stream(device);
    for (const Sides& sides : all_sides({4, 50}, {4, 50}, device)) {
      const std::vector<BlockPair> pairs = {{3, 0}, {1, 2}};
      const std::vector<std::int64_t> before = read_bits(sides.dst);
      const Graph graph = capture(stream, [&] { swap_blocks(sides.dst, sides.src, pairs, stream); });
      synchronize(stream);
      EXPECT_EQ(read_bits(sides.dst), before) << "a capture ran";
      graph.launch(stream);
      synchronize(stream);
      const std::vector<std::int64_t> got = read_bits(sides.dst);
      EXPECT_EQ(got[0], 9150) << sides.name;
      EXPECT_EQ(got[149], 9099) << sides.name;
      EXPECT_THAT(
          usage_message(
              UsageError::Kind::value,
              [&] { capture(stream, [&] { swap_blocks(sides.dst, sides.src, pairs, stream, SwapMethod::kernel); }); }),
          HasSubstr("copy engine"));
    }
  }
}

}  // namespace
}  // namespace kiln::test
