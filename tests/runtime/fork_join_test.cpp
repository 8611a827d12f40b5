#include "runtime/fork_join.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <stdexcept>
#include <vector>

#include "core/errors.hpp"
#include "runtime/event.hpp"
#include "runtime/graph.hpp"
#include "runtime/memory.hpp"

#include "tests/runtime/stream_gate.hpp"
#include "tests/support/devices.hpp"

namespace kiln::test {
namespace {

constexpr Stream kCpu{Device::cpu(), nullptr};

TEST(ForkJoin, OnTheCpuBranchesRunInOrder) {
  std::vector<int> order;
  fork_join(kCpu, {[&](Stream stream) {
                     EXPECT_EQ(stream.device, Device::cpu());
                     order.push_back(1);
                   },
                   [&](Stream stream) {
                     fork_join(stream, {[&](Stream) { order.push_back(2); }, [&](Stream) { order.push_back(3); }});
                   },
                   [&](Stream) { order.push_back(4); }});
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4}));
  fork_join(kCpu, {});
}

TEST(ForkJoin, ABranchThatThrowsIsTheLast) {
  int calls = 0;
  EXPECT_THROW(fork_join(kCpu, {[&](Stream) { ++calls; }, [](Stream) { throw std::runtime_error("stop"); },
                                [&](Stream) { ++calls; }}),
               std::runtime_error);
  EXPECT_EQ(calls, 1);
}

TEST(ForkJoin, RefusesWhatCannotRun) {
  int calls = 0;
  EXPECT_THROW(fork_join(kCpu, {[&](Stream) { ++calls; }, nullptr}), UsageError);
  EXPECT_EQ(calls, 0) << "it is refused before anything runs";
  EXPECT_THROW(fork_join(Stream::default_of(Device::cuda(99)), {[&](Stream) { ++calls; }}), DeviceError);
  EXPECT_EQ(calls, 0);
}

class CudaForkJoin : public GpuTest {
 protected:
  static std::vector<std::uint8_t> read(const Tensor& tensor, Stream stream) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.numel()));
    copy(dense_view(bytes.data(), DType::u8, tensor.shape()), tensor, stream);
    synchronize(stream);
    return bytes;
  }

  static constexpr Device kDevice = Device::cuda(0);
};

TEST_F(CudaForkJoin, BranchesHaveStreamsOfTheirOwn) {
  const OwnedStream stream(kDevice, stream_priority_range(kDevice).greatest);
  std::set<void*> handles{stream.get().handle};
  const auto note = [&](Stream branch) {
    EXPECT_EQ(branch.device, kDevice);
    EXPECT_EQ(stream_priority(branch), stream_priority(stream));
    handles.insert(branch.handle);
  };
  fork_join(stream, {note, note, [&](Stream branch) {
                       note(branch);
                       fork_join(branch, {note, note});
                     }});
  EXPECT_EQ(handles.size(), 6u);
}

TEST_F(CudaForkJoin, StreamsAreUsedAgain) {
  const OwnedStream stream(kDevice);
  std::set<void*> handles;
  const auto note = [&](Stream branch) { handles.insert(branch.handle); };
  for (int i = 0; i < 20; ++i) fork_join(stream, {note, note});
  EXPECT_LE(handles.size(), 16u) << "at most what the pool holds of this priority";
}

TEST_F(CudaForkJoin, BranchesStartAfterTheWorkBeforeAndEndBeforeTheWorkAfter) {
  for (const bool on_default : {false, true}) {
    const OwnedStream own(kDevice);
    const Stream stream = on_default ? Stream::default_of(kDevice) : own.get();
    const Tensor first = empty({1 << 20}, DType::u8, stream), second = empty({1 << 20}, DType::u8, stream);
    const Tensor gathered = empty({2, 1 << 20}, DType::u8, stream);
    memset_bytes(first, 9, stream);
    memset_bytes(second, 9, stream);
    fork_join(stream, {[](Stream) {}, [](Stream) {}});  // the pool has its streams
    synchronize(stream);
    {
      StreamGate gate(stream);
      memset_bytes(first, 1, stream);
      const auto half = [&](int row) {
        return dense_view(gathered.data_as<std::byte>() + row * (1 << 20), DType::u8, {1 << 20}, kDevice);
      };
      fork_join(stream, {[&](Stream branch) { copy(half(0), first, branch); },
                         [&](Stream branch) {
                           memset_bytes(second, 2, branch);
                           copy(half(1), second, branch);
                         }});
      gate.open();
    }
    const std::vector<std::uint8_t> bytes = read(gathered, stream);
    EXPECT_EQ(bytes.front(), 1);
    EXPECT_EQ(bytes.back(), 2);
  }
}

TEST_F(CudaForkJoin, MemoryOfABranchIsFreedBehindItsUsersAfterTheJoin) {
  const OwnedStream stream(kDevice), other(kDevice);
  constexpr std::int64_t kBytes = 8 << 20;
  const Tensor kept = empty({kBytes}, DType::u8, stream);
  Tensor made;
  Stream lent;
  fork_join(stream, {[&](Stream branch) {
              fork_join(branch, {[&](Stream inner) {
                          lent = inner;
                          made = empty({kBytes}, DType::u8, inner);
                          memset_bytes(made, 5, inner);
                        }});
            }});
  synchronize(stream);
  StreamGate gate(stream);
  copy(kept, made, stream);
  made = Tensor();
  synchronize(lent);
  // Freed on a branch's stream, which is idle, the memory would be handed out again at once and spoilt before it is
  // read.
  const Tensor next = empty({kBytes}, DType::u8, other);
  memset_bytes(next, 7, other);
  Event spoilt(kDevice);
  spoilt.record(other);
  comes_true([&] { return spoilt.is_done(); });  // not where the driver makes `other` wait for the memory
  gate.open();
  EXPECT_EQ(read(kept, stream).front(), 5);
  synchronize(other);
}

TEST_F(CudaForkJoin, BranchesAreCapturedAndTheirStreamsHeldBackUntilTheEnd) {
  const OwnedStream stream(kDevice), other(kDevice);
  const Tensor first = empty({64}, DType::u8, stream), second = empty({64}, DType::u8, stream);
  const Tensor sum = empty({2, 64}, DType::u8, stream);
  synchronize(stream);
  std::set<void*> captured;
  const Graph graph = capture(stream, [&] {
    const auto fill = [&](const Tensor& tensor, std::uint8_t value) {
      return [&, value](Stream branch) {
        EXPECT_TRUE(is_capturing(branch));
        captured.insert(branch.handle);
        memset_bytes(tensor, value, branch);
      };
    };
    fork_join(stream, {fill(first, 3), fill(second, 4)});
    fork_join(other, {[&](Stream branch) {
                EXPECT_FALSE(is_capturing(branch));
                EXPECT_FALSE(captured.contains(branch.handle));
              }});
    fork_join(stream, {fill(first, 5), fill(second, 6)});
    copy(dense_view(sum.data(), DType::u8, {64}, kDevice), first, stream);
    copy(dense_view(sum.data_as<std::byte>() + 64, DType::u8, {64}, kDevice), second, stream);
  });
  EXPECT_EQ(captured.size(), 4u) << "a captured stream is lent once per capture";
  for (void* const handle : captured) EXPECT_FALSE(is_capturing({kDevice, handle}));
  for (int replay = 0; replay < 3; ++replay) {
    memset_bytes(sum, 0, stream);
    graph.launch(stream);
    const std::vector<std::uint8_t> bytes = read(sum, stream);
    EXPECT_EQ(bytes.front(), 5);
    EXPECT_EQ(bytes.back(), 6);
  }
}

TEST_F(CudaForkJoin, ABranchThatThrowsLeavesTheCaptureWhole) {
  const OwnedStream stream(kDevice);
  const Tensor tensor = empty({64}, DType::u8, stream);
  synchronize(stream);
  const Graph graph = capture(stream, [&] {
    EXPECT_THROW(fork_join(stream, {[&](Stream branch) { memset_bytes(tensor, 8, branch); },
                                    [](Stream) { throw std::runtime_error("stop"); }}),
                 std::runtime_error);
  });
  memset_bytes(tensor, 0, stream);
  graph.launch(stream);
  EXPECT_EQ(read(tensor, stream).front(), 8);
}

}  // namespace
}  // namespace kiln::test
