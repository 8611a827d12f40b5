#include "runtime/graph_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace kiln::test {
namespace {

/// Streams of the CPU have no handles; the memory only compares them.
Stream stream_number(std::uintptr_t number) {
  return {Device::cpu(), reinterpret_cast<void*>(number)};
}

TEST(GraphMemory, ABlockServesItsStreamAgain) {
  const auto memory = std::make_shared<GraphMemory>();
  const Stream first = stream_number(1), second = stream_number(2);
  std::shared_ptr<void> block = memory->allocate(1000, first);
  void* const address = block.get();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 64, 0u);
  EXPECT_TRUE(memory->contains(address));
  EXPECT_TRUE(memory->contains(static_cast<std::byte*>(address) + 999));
  EXPECT_FALSE(memory->contains(&block));
  block.reset();
  EXPECT_NE(memory->allocate(1000, second).get(), address) << "another stream may be ahead of the first";
  EXPECT_NE(memory->allocate(100, first).get(), address) << "a tenth of the block would waste the rest";
  block = memory->allocate(900, first);
  EXPECT_EQ(block.get(), address);
  EXPECT_NE(memory->allocate(1000, first).get(), address) << "it is in use";
}

TEST(GraphMemory, NothingServesAgainOnceItIsClosed) {
  const auto memory = std::make_shared<GraphMemory>();
  const Stream stream = stream_number(1);
  std::shared_ptr<void> early = memory->allocate(512, stream), late = memory->allocate(512, stream);
  void *const early_address = early.get(), *const late_address = late.get();
  early.reset();
  memory->close();
  late.reset();
  for (int i = 0; i < 4; ++i) {
    const std::shared_ptr<void> block = memory->allocate(512, stream);
    EXPECT_NE(block.get(), early_address);
    EXPECT_NE(block.get(), late_address);
  }
}

TEST(GraphMemory, LivesAsLongAsABlock) {
  std::shared_ptr<void> block;
  {
    const auto memory = std::make_shared<GraphMemory>();
    block = memory->allocate(4096, stream_number(1));
    EXPECT_EQ(memory->size_bytes(), 4096);
  }
  std::memset(block.get(), 1, 4096);
}

TEST(GraphMemory, BlocksInUseNeverOverlap) {
  std::mt19937_64 random{std::random_device{}()};
  const auto memory = std::make_shared<GraphMemory>();
  struct Held {
    std::shared_ptr<void> block;
    std::int64_t size_bytes;
    unsigned char mark;
  };
  std::vector<Held> held;
  for (int round = 0; round < 2000; ++round) {
    if (held.size() > 20 || (!held.empty() && random() % 2 == 0)) {
      const std::size_t chosen = random() % held.size();
      const Held& one = held[chosen];
      const auto* bytes = static_cast<const unsigned char*>(one.block.get());
      for (std::int64_t i = 0; i < one.size_bytes; ++i) ASSERT_EQ(bytes[i], one.mark);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(chosen));
      continue;
    }
    const auto size_bytes = static_cast<std::int64_t>(1 + random() % 5000);
    const auto mark = static_cast<unsigned char>(random());
    held.push_back({memory->allocate(size_bytes, stream_number(random() % 3)), size_bytes, mark});
    std::memset(held.back().block.get(), mark, static_cast<std::size_t>(size_bytes));
  }
}

}  // namespace
}  // namespace kiln::test
