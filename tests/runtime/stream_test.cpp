#include "runtime/stream.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event.hpp"
#include "runtime/graph.hpp"
#include "runtime/memory.hpp"

#include "tests/runtime/stream_gate.hpp"
#include "tests/support/devices.hpp"

namespace kiln::test {
namespace {

TEST(Stream, OnTheCpuIsANullHandle) {
  const OwnedStream stream(Device::cpu());
  EXPECT_EQ(stream.get().handle, nullptr);
  EXPECT_EQ(stream.get().device, Device::cpu());
  synchronize(stream);
  EXPECT_FALSE(is_capturing(stream));
}

TEST(Stream, OfAnAbsentDeviceIsADeviceError) {
  EXPECT_THROW(OwnedStream(Device::cuda(99)), DeviceError);
  EXPECT_THROW(synchronize(Stream::default_of(Device::cuda(99))), DeviceError);
  EXPECT_THROW(is_capturing(Stream::default_of(Device::cuda(-1))), DeviceError);
}

TEST(Stream, HasNoPrioritiesOnTheCpu) {
  EXPECT_EQ(stream_priority_range(Device::cpu()).least, 0);
  EXPECT_EQ(stream_priority_range(Device::cpu()).greatest, 0);
  EXPECT_EQ(stream_priority(OwnedStream(Device::cpu(), -3)), 0);
  EXPECT_THROW(stream_priority_range(Device::cuda(99)), DeviceError);
  EXPECT_THROW(stream_priority(Stream::default_of(Device::cuda(99))), DeviceError);
}

TEST(Stream, WaitsForTheCpuWithoutWork) {
  const Stream cpu = Stream::default_of(Device::cpu());
  wait_stream(cpu, cpu);
  EXPECT_THROW(wait_stream(cpu, Stream::default_of(Device::cuda(99))), DeviceError);
  EXPECT_THROW(wait_stream(Stream::default_of(Device::cuda(99)), cpu), DeviceError);
}

using CudaStream = GpuTest;

TEST_F(CudaStream, StreamsOfEveryDeviceSynchronize) {
  for (int ordinal = 0; ordinal < device_count(DeviceType::cuda); ++ordinal) {
    const OwnedStream stream(Device::cuda(ordinal));
    EXPECT_NE(stream.get().handle, nullptr);
    memset_bytes(empty({1024}, DType::u8, stream), 1, stream);
    synchronize(stream);
    synchronize(Stream::default_of(Device::cuda(ordinal)));
  }
}

TEST_F(CudaStream, PrioritiesAreClamped) {
  const Device device = Device::cuda(0);
  const StreamPriorityRange range = stream_priority_range(device);
  EXPECT_LE(range.greatest, range.least);
  EXPECT_EQ(stream_priority(OwnedStream(device)), 0);
  EXPECT_EQ(stream_priority(OwnedStream(device, range.greatest)), range.greatest);
  EXPECT_EQ(stream_priority(OwnedStream(device, range.greatest - 100)), range.greatest);
  EXPECT_EQ(stream_priority(OwnedStream(device, range.least + 100)), range.least);
}

TEST_F(CudaStream, MovesWithItsHandle) {
  OwnedStream first(Device::cuda(0));
  void* const handle = first.get().handle;
  OwnedStream second(std::move(first));
  EXPECT_EQ(second.get().handle, handle);
  EXPECT_EQ(first.get().handle, nullptr);  // NOLINT(bugprone-use-after-move)
  OwnedStream third(Device::cuda(0));
  third = std::move(second);
  EXPECT_EQ(third.get().handle, handle);
  synchronize(third);
}

TEST_F(CudaStream, WaitStreamHoldsBackWhatComesAfter) {
  const Device device = Device::cuda(0);
  const OwnedStream first(device), second(device);
  const Tensor source = empty({64}, DType::u8, first), target = empty({64}, DType::u8, first);
  memset_bytes(source, 1, first);
  synchronize(first);
  {
    StreamGate gate(first);
    memset_bytes(source, 2, first);
    wait_stream(second, first);
    copy(target, source, second);
    Event copied(device);
    copied.record(second);
    EXPECT_FALSE(copied.is_done());
    gate.open();
    wait_stream(Stream::default_of(Device::cpu()), second);
    EXPECT_TRUE(copied.is_done()) << "a CPU stream that waits is the host that waits";
  }
  EXPECT_EQ(*to_device(target, Device::cpu()).data_as<std::uint8_t>(), 2);
}

TEST_F(CudaStream, WaitsThatWouldSpoilACaptureAreRefused) {
  const Device device = Device::cuda(0);
  const OwnedStream stream(device), joined(device), outside(device);
  const Tensor tensor = empty({64}, DType::u8, stream);
  synchronize(stream);
  const Graph graph = capture(stream, [&] {
    EXPECT_THROW(wait_stream(stream, outside), UsageError);
    EXPECT_THROW(wait_stream(Stream::default_of(Device::cpu()), stream), UsageError);
    wait_stream(joined, stream);
    EXPECT_TRUE(is_capturing(joined));
    memset_bytes(tensor, 6, joined);
    wait_stream(stream, joined);
  });
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(*to_device(tensor, Device::cpu()).data_as<std::uint8_t>(), 6);
}

TEST_F(CudaStream, OthersMayBeWaitedForAndTimedDuringACapture) {
  const Device device = Device::cuda(0);
  const OwnedStream stream(device), other(device);
  const Tensor tensor = empty({64}, DType::u8, stream);
  synchronize(stream);
  Event start(device, true), stop(device, true);
  start.record(other);
  stop.record(other);
  const Graph graph = capture(stream, [&] {
    memset_bytes(tensor, 1, stream);
    synchronize(other);
    EXPECT_GE(elapsed_us(start, stop), 0.0);
    EXPECT_THROW(synchronize(stream), UsageError);
  });
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(*to_device(tensor, Device::cpu()).data_as<std::uint8_t>(), 1);
}

TEST_F(CudaStream, TwoCapturesDoNotWaitForOneAnother) {
  const Device device = Device::cuda(0);
  const OwnedStream outer_stream(device), inner_stream(device);
  const Tensor tensor = empty({64}, DType::u8, outer_stream);
  synchronize(outer_stream);
  std::optional<Graph> inner;
  const Graph outer = capture(outer_stream, [&] {
    inner = capture(inner_stream, [&] {
      EXPECT_THROW(wait_stream(inner_stream, outer_stream), UsageError);
      EXPECT_THROW(wait_stream(outer_stream, inner_stream), UsageError);
      memset_bytes(tensor, 3, inner_stream);
    });
    memset_bytes(tensor, 2, outer_stream);
  });
  inner->launch(outer_stream);
  synchronize(outer_stream);
  EXPECT_EQ(*to_device(tensor, Device::cpu()).data_as<std::uint8_t>(), 3);
  outer.launch(outer_stream);
  synchronize(outer_stream);
  EXPECT_EQ(*to_device(tensor, Device::cpu()).data_as<std::uint8_t>(), 2);
}

TEST_F(CudaStream, OfAnotherDeviceJoinsNoCapture) {
  if (device_count(DeviceType::cuda) < 2) GTEST_SKIP() << "needs two CUDA devices";
  const OwnedStream stream(Device::cuda(0)), elsewhere(Device::cuda(1));
  const Tensor tensor = empty({64}, DType::u8, stream);
  synchronize(stream);
  const Graph graph = capture(stream, [&] {
    EXPECT_THROW(wait_stream(elsewhere, stream), UsageError);
    EXPECT_FALSE(is_capturing(elsewhere));
    memset_bytes(tensor, 4, stream);
  });
  graph.launch(stream);
  wait_stream(elsewhere, stream);
  synchronize(elsewhere);
  EXPECT_EQ(*to_device(tensor, Device::cpu()).data_as<std::uint8_t>(), 4);
}

TEST_F(CudaStream, KnowsWhenItIsCaptured) {
  const OwnedStream stream(Device::cuda(0));
  EXPECT_FALSE(is_capturing(stream));
  bool was_capturing = false;
  const Graph graph = capture(stream, [&] { was_capturing = is_capturing(stream); });
  EXPECT_TRUE(was_capturing);
  EXPECT_FALSE(is_capturing(stream));
}

TEST_F(CudaStream, ACaptureThatThrowsEnds) {
  const OwnedStream stream(Device::cuda(0));
  EXPECT_THROW(capture(stream, [] { throw std::runtime_error("stop"); }), std::runtime_error);
  EXPECT_FALSE(is_capturing(stream));
  synchronize(stream);
}

TEST_F(CudaStream, TheDefaultStreamCannotBeCaptured) {
  EXPECT_THROW(capture(Stream::default_of(Device::cuda(0)), [] {}), UsageError);
}

}  // namespace
}  // namespace kiln::test
