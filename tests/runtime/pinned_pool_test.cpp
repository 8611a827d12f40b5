#include "runtime/transfer/pinned_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_source.hpp"

#include "runtime/graph.hpp"
#include "tests/runtime/stream_gate.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kPageBytes = 4096;

/// A simulated stream: work is done when the test says so, in order. Marks share its state, which a pool may ask after
/// the stream is gone.
class LateStream {
 public:
  struct State : std::enable_shared_from_this<State> {
    std::deque<std::function<void()>> work;
    std::int64_t enqueued = 0, done = 0;
    void run() {
      for (; !work.empty(); work.pop_front(), ++done) work.front()();
    }
  };
  Stream stream() const { return {Device::cpu(), state_.get()}; }
  void enqueue(std::function<void()> work) {
    state_->work.push_back(std::move(work));
    ++state_->enqueued;
  }
  void run() { state_->run(); }
  std::int64_t done() const { return state_->done; }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Ordinary memory of limited size, and marks of LateStreams.
class FakeSource final : public PinnedSource {
 public:
  struct Memory {
    std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();
    std::int64_t held_bytes = 0;
    std::int64_t allocations = 0;
  };
  /// The twin that lacks the guard says of all work that it is done.
  enum class Guard { present, absent };

  FakeSource(Memory& memory, Guard guard) : memory_(memory), guard_(guard) {}
  void* allocate(std::int64_t size_bytes, std::int64_t alignment_bytes) override {
    if (memory_.held_bytes + size_bytes > memory_.limit_bytes) return nullptr;
    memory_.held_bytes += size_bytes;
    ++memory_.allocations;
    return std::aligned_alloc(
        static_cast<std::size_t>(alignment_bytes),
        static_cast<std::size_t>((size_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes));
  }
  void release(void* memory, std::int64_t size_bytes) noexcept override {
    memory_.held_bytes -= size_bytes;
    std::free(memory);
  }
  std::unique_ptr<PinnedMark> record(Stream stream) override {
    return std::make_unique<Mark>(static_cast<LateStream::State*>(stream.handle)->shared_from_this(), guard_);
  }

 private:
  class Mark final : public PinnedMark {
   public:
    Mark(std::shared_ptr<LateStream::State> stream, Guard guard)
        : stream_(std::move(stream)), position_(stream_->enqueued), guard_(guard) {}
    bool is_done() const override { return guard_ == Guard::absent || stream_->done >= position_; }
    void synchronize() const override { stream_->run(); }

   private:
    std::shared_ptr<LateStream::State> stream_;
    std::int64_t position_;
    Guard guard_;
  };

  Memory& memory_;
  Guard guard_;
};

struct FakePool {
  explicit FakePool(const PinnedPoolOptions& options = {}, FakeSource::Guard guard = FakeSource::Guard::present)
      : pool(std::make_unique<FakeSource>(memory, guard), options) {}
  FakeSource::Memory memory;
  PinnedPool pool;
};

void fill(const Tensor& tensor, int value) {
  std::memset(tensor.data(), value, static_cast<std::size_t>(tensor.numel() * itemsize_bytes(tensor.dtype())));
}

/// Sends two lots of data through staging memory while the stream is slow. Returns what arrived first.
int first_arrival(PinnedPool& pool) {
  LateStream stream;
  std::vector<std::uint8_t> first(4096), second(4096);
  for (auto* arrived : {&first, &second}) {
    const Tensor staging = pool.empty({4096}, DType::u8);
    fill(staging, arrived == &first ? 1 : 2);
    stream.enqueue([arrived, from = staging.data()] { std::memcpy(arrived->data(), from, 4096); });
    pool.record(staging, stream.stream());
  }
  stream.run();
  EXPECT_EQ(second[0], 2);
  return first[0];
}

TEST(PinnedPool, StagingIsNotReusedWhileACopyIsPending) {
  FakePool guarded;
  EXPECT_EQ(first_arrival(guarded.pool), 1);
  EXPECT_EQ(guarded.pool.statistics().allocations, 2);
}

TEST(PinnedPool, WithoutTheGuardReuseCorruptsAPendingCopy) {
  FakePool unguarded({}, FakeSource::Guard::absent);
  EXPECT_EQ(first_arrival(unguarded.pool), 2);
  EXPECT_EQ(unguarded.pool.statistics().allocations, 1);
}

TEST(PinnedPool, ABlockComesBackWhenItsWorkIsDone) {
  FakePool fake;
  LateStream stream;
  std::optional<Tensor> tensor = fake.pool.empty({100}, DType::f32);
  void* const memory = tensor->data();
  stream.enqueue([] {});
  fake.pool.record(*tensor, stream.stream());
  tensor.reset();
  EXPECT_EQ(fake.pool.statistics().pending_bytes, kPageBytes);
  EXPECT_EQ(fake.pool.statistics().cached_bytes, 0);
  const Tensor other = fake.pool.empty({100}, DType::f32);
  EXPECT_NE(other.data(), memory);
  stream.run();
  EXPECT_EQ(fake.pool.statistics().pending_bytes, 0);
  EXPECT_EQ(fake.pool.statistics().cached_bytes, kPageBytes);
  EXPECT_EQ(fake.pool.empty({100}, DType::f32).data(), memory);
  EXPECT_EQ(fake.pool.statistics().reuses, 1);
}

TEST(PinnedPool, AllStreamsThatUseABlockMustBeDone) {
  FakePool fake;
  LateStream first, second;
  std::optional<Tensor> tensor = fake.pool.empty({8}, DType::u8);
  void* const memory = tensor->data();
  for (LateStream* stream : {&first, &second}) {
    stream->enqueue([] {});
    fake.pool.record(*tensor, stream->stream());
  }
  tensor.reset();
  second.run();
  EXPECT_NE(fake.pool.empty({8}, DType::u8).data(), memory);
  first.run();
  EXPECT_EQ(fake.pool.statistics().pending_bytes, 0);
}

TEST(PinnedPool, MarksBelongToBlocksNotToAddresses) {
  // Released to the system and mapped again, an address may name another block: an old mark must not hold that one.
  FakePool fake({.max_cached_bytes = 0});
  LateStream stream;
  std::optional<Tensor> tensor = fake.pool.empty({8}, DType::u8);
  fake.pool.record(*tensor, stream.stream());
  tensor.reset();  // nothing is enqueued: the mark is reached, and the block goes at once
  EXPECT_EQ(fake.memory.held_bytes, 0);
  stream.enqueue([] {});
  tensor = fake.pool.empty({8}, DType::u8);
  tensor.reset();
  EXPECT_EQ(fake.pool.statistics().pending_bytes, 0);
  EXPECT_EQ(fake.memory.held_bytes, 0);
}

TEST(PinnedPool, AViewHoldsItsBlockAndMayBeRecorded) {
  FakePool fake;
  LateStream stream;
  std::optional<Tensor> whole = fake.pool.empty({16, 4}, DType::i32);
  std::optional<Tensor> row = Tensor(dense_view(whole->data_as<std::int32_t>() + 20, DType::i32, {4}), whole->owner());
  whole.reset();
  EXPECT_EQ(fake.pool.statistics().in_use_bytes, kPageBytes);
  stream.enqueue([] {});
  fake.pool.record(*row, stream.stream());
  row.reset();
  EXPECT_EQ(fake.pool.statistics().pending_bytes, kPageBytes);
}

TEST(PinnedPool, RefusesToRecordWhatIsNotItsOwn) {
  FakePool fake, other;
  LateStream stream;
  EXPECT_THROW(fake.pool.record(other.pool.empty({8}, DType::u8), stream.stream()), UsageError);
  EXPECT_THROW(fake.pool.record(empty({8}, DType::u8, Device::cpu()), stream.stream()), UsageError);
  fake.pool.record(fake.pool.empty({0}, DType::u8), stream.stream());
}

TEST(PinnedPool, BlocksAreAsLargeAsAskedFor) {
  FakePool fake;
  const Tensor row = fake.pool.empty({5 * kPageBytes + 1}, DType::u8);
  EXPECT_EQ(fake.memory.held_bytes, 6 * kPageBytes) << "a power of two would be 8 pages";
  EXPECT_TRUE(row.view().is_contiguous());
  EXPECT_EQ(row.device(), Device::cpu());
  EXPECT_EQ(fake.pool.empty({3, 0}, DType::f32).data(), nullptr);
  EXPECT_EQ(fake.pool.statistics().allocations, 1);
}

TEST(PinnedPool, ABlockOfAnotherSizeIsNotReused) {
  FakePool fake;
  fake.pool.empty({2 * kPageBytes}, DType::u8);
  const Tensor smaller = fake.pool.empty({kPageBytes}, DType::u8);
  EXPECT_EQ(fake.pool.statistics().reuses, 0);
  EXPECT_EQ(fake.pool.statistics().cached_bytes, 2 * kPageBytes);
}

TEST(PinnedPool, TheCacheIsBoundedAndForgetsTheLongestFree) {
  FakePool fake({.max_cached_bytes = 3 * kPageBytes});
  std::map<std::int64_t, Tensor> tensors;
  for (const std::int64_t pages : {1, 2, 3}) tensors[pages] = fake.pool.empty({pages * kPageBytes}, DType::u8);
  tensors.erase(2);
  tensors.erase(1);
  EXPECT_EQ(fake.pool.statistics().cached_bytes, 3 * kPageBytes);
  tensors.erase(3);
  EXPECT_EQ(fake.pool.statistics().cached_bytes, 3 * kPageBytes) << "those of two pages and of one went";
  fake.pool.empty({3 * kPageBytes}, DType::u8);
  EXPECT_EQ(fake.pool.statistics().reuses, 1);
  EXPECT_EQ(fake.pool.statistics().peak_bytes, 6 * kPageBytes);
}

TEST(PinnedPool, PendingBlocksStayWhateverTheBound) {
  FakePool fake({.max_cached_bytes = 0});
  LateStream stream;
  std::optional<Tensor> tensor = fake.pool.empty({8}, DType::u8);
  stream.enqueue([] {});
  fake.pool.record(*tensor, stream.stream());
  tensor.reset();
  fake.pool.trim();
  EXPECT_EQ(fake.memory.held_bytes, kPageBytes);
  stream.run();
  fake.pool.trim();
  EXPECT_EQ(fake.memory.held_bytes, 0);
}

TEST(PinnedPool, TrimKeepsWhatItIsTold) {
  FakePool fake;
  for (const std::int64_t pages : {4, 3, 2}) fake.pool.empty({pages * kPageBytes}, DType::u8);
  fake.pool.trim(6 * kPageBytes);
  EXPECT_EQ(fake.pool.statistics().cached_bytes, 5 * kPageBytes) << "the longest free, of 4 pages, went";
  fake.pool.trim();
  EXPECT_EQ(fake.memory.held_bytes, 0);
}

TEST(PinnedPool, WhenMemoryIsShortWhatIsFreeGoesFirst) {
  FakePool fake;
  fake.memory.limit_bytes = 4 * kPageBytes;
  LateStream stream;
  std::optional<Tensor> pending = fake.pool.empty({kPageBytes}, DType::u8);
  stream.enqueue([] {});
  fake.pool.record(*pending, stream.stream());
  pending.reset();
  fake.pool.empty({2 * kPageBytes}, DType::u8);
  const Tensor all = fake.pool.empty({4 * kPageBytes}, DType::u8);
  EXPECT_EQ(stream.done(), 1) << "the pending block was waited for";
  EXPECT_THAT(error_message<DeviceError>([&] { fake.pool.empty({3 * kPageBytes}, DType::u8); }),
              HasSubstr(std::to_string(3 * kPageBytes)));
  EXPECT_EQ(fake.pool.statistics().in_use_bytes, 4 * kPageBytes);
}

TEST(PinnedPool, TensorsMayOutliveThePool) {
  FakeSource::Memory memory;
  LateStream stream;
  Tensor survivor;
  {
    PinnedPool pool(std::make_unique<FakeSource>(memory, FakeSource::Guard::present));
    survivor = pool.empty({8}, DType::u8);
    stream.enqueue([] {});
    pool.record(survivor, stream.stream());
  }
  fill(survivor, 1);
  EXPECT_EQ(memory.held_bytes, kPageBytes);
  survivor = Tensor();
  EXPECT_EQ(stream.done(), 1) << "the memory went before its work was done";
  EXPECT_EQ(memory.held_bytes, 0);
}

TEST(PinnedPool, RefusesWhatMakesNoSense) {
  EXPECT_THROW(PinnedPool(Device::cpu(), {.alignment_bytes = 64}), UsageError);
  EXPECT_THROW(PinnedPool(Device::cpu(), {.alignment_bytes = 12288}), UsageError);
  EXPECT_THROW(PinnedPool(Device::cpu(), {.max_cached_bytes = -1}), UsageError);
  EXPECT_THROW(PinnedPool(Device::cuda(99)), DeviceError);
  PinnedPool pool(Device::cpu());
  EXPECT_THROW(pool.empty({-1}, DType::u8), UsageError);
  EXPECT_THROW(pool.empty({std::numeric_limits<std::int64_t>::max()}, DType::f64), UsageError);
  EXPECT_THROW(pool.empty({std::int64_t{1} << 50}, DType::u8), DeviceError);
}

TEST(PinnedPool, OfTheCpuHandsOutAlignedMemory) {
  for (const std::int64_t alignment_bytes : {kPageBytes, std::int64_t{1} << 16, std::int64_t{1} << 22}) {
    PinnedPool pool(Device::cpu(), {.alignment_bytes = alignment_bytes});
    for (const std::int64_t size_bytes : {std::int64_t{1}, std::int64_t{656}, (std::int64_t{5} << 20) + 4095}) {
      const Tensor tensor = pool.empty({size_bytes}, DType::u8);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % static_cast<std::uintptr_t>(alignment_bytes), 0U);
      fill(tensor, 0xA5);
      pool.record(tensor, Stream::default_of(Device::cpu()));
      EXPECT_EQ(device_pointer(tensor, Device::cpu()), tensor.data());
    }
    EXPECT_EQ(pool.statistics().pending_bytes, 0);
  }
}

TEST(PinnedPool, ThreadsNeverShareABlock) {
  PinnedPool pool(Device::cpu(), {.max_cached_bytes = 8 * kPageBytes});
  std::atomic<int> mistakes = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&pool, &mistakes, thread] {
        for (int round = 0; round < 2000; ++round) {
          const Tensor tensor = pool.empty({(1 + round % 3) * kPageBytes}, DType::u8);
          fill(tensor, thread + 1);
          pool.record(tensor, Stream::default_of(Device::cpu()));
          if (round % 50 == 0) std::this_thread::yield();
          for (std::int64_t i = 0; i < tensor.numel(); i += 509)
            if (tensor.data_as<std::uint8_t>()[i] != thread + 1) ++mistakes;
          if (round % 500 == 0) pool.trim();
        }
      });
  }
  EXPECT_EQ(mistakes, 0);
  EXPECT_EQ(pool.statistics().in_use_bytes, 0);
  EXPECT_LE(pool.statistics().cached_bytes, 8 * kPageBytes);
}

using CudaPinnedPool = GpuTest;

TEST_F(CudaPinnedPool, RoundTripsThroughTheDevice) {
  PinnedPool pool(kDevice);
  const OwnedStream stream(kDevice);
  for (const std::int64_t size_bytes : {std::int64_t{1}, std::int64_t{656}, (std::int64_t{5} << 20) + 1}) {
    const Tensor host = pool.empty({size_bytes}, DType::u8);
    const Tensor back = pool.empty({size_bytes}, DType::u8);
    for (std::int64_t i = 0; i < size_bytes; ++i) host.data_as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7);
    fill(back, 0);
    const Tensor on_device = empty({size_bytes}, DType::u8, stream);
    copy(on_device, host, stream);
    copy(back, on_device, stream);
    pool.record(back, stream);
    synchronize(stream);
    EXPECT_EQ(std::memcmp(host.data(), back.data(), static_cast<std::size_t>(size_bytes)), 0) << size_bytes;
  }
}

/// As first_arrival, on the device; `must_record` is the guard. Whether the second tensor was the first one's memory.
struct Arrival {
  int first, second;
  bool is_same_memory;
};
Arrival stage_twice(Device device, bool must_record) {
  PinnedPool pool(device);
  const OwnedStream stream(device);
  const Tensor first = empty({4096}, DType::u8, stream), second = empty({4096}, DType::u8, stream);
  synchronize(stream);
  std::vector<void*> addresses;
  {
    StreamGate gate(stream);
    for (const auto* arrived : {&first, &second}) {
      const Tensor staging = pool.empty({4096}, DType::u8);
      addresses.push_back(staging.data());
      fill(staging, arrived == &first ? 1 : 2);
      copy(*arrived, staging, stream);
      if (must_record) pool.record(staging, stream);
    }
  }
  return {*to_device(first, Device::cpu()).data_as<std::uint8_t>(),
          *to_device(second, Device::cpu()).data_as<std::uint8_t>(), addresses[0] == addresses[1]};
}

TEST_F(CudaPinnedPool, StagingIsNotReusedWhileACopyIsPending) {
  const Arrival arrival = stage_twice(kDevice, true);
  EXPECT_EQ(arrival.first, 1);
  EXPECT_EQ(arrival.second, 2);
  EXPECT_FALSE(arrival.is_same_memory);
}

TEST_F(CudaPinnedPool, WithoutTheGuardReuseCorruptsAPendingCopy) {
  const Arrival arrival = stage_twice(kDevice, false);
  EXPECT_TRUE(arrival.is_same_memory);
  EXPECT_EQ(arrival.first, 2);
}

TEST_F(CudaPinnedPool, ACapturedUseIsRefusedWithAdvice) {
  PinnedPool pool(kDevice);
  const OwnedStream stream(kDevice);
  const Tensor host = pool.empty({8}, DType::u8);
  const Graph graph = capture(stream, [&] { EXPECT_THROW(pool.record(host, stream), UsageError); });
}

TEST_F(CudaPinnedPool, MemoryGoesBackToTheSystem) {
  PinnedPool pool(kDevice, {.max_cached_bytes = 0});
  for (int round = 0; round < 64; ++round) pool.empty({std::int64_t{64} << 20}, DType::u8);
  EXPECT_EQ(pool.statistics().peak_bytes, std::int64_t{64} << 20);
  EXPECT_EQ(pool.statistics().cached_bytes, 0);
}

}  // namespace
}  // namespace kiln::test
