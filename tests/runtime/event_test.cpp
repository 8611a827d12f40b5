#include "runtime/event.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "core/errors.hpp"
#include "runtime/graph.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"

#include "tests/runtime/stream_gate.hpp"
#include "tests/support/devices.hpp"

namespace kiln::test {
namespace {

TEST(Event, OfTheCpuIsAlwaysReached) {
  Event event(Device::cpu());
  EXPECT_TRUE(event.is_done());
  const Stream stream = Stream::default_of(Device::cpu());
  event.record(stream);
  event.wait(stream);
  event.synchronize();
  EXPECT_TRUE(event.is_done());
}

TEST(Event, MeasuresTheCpusClock) {
  const Stream stream = Stream::default_of(Device::cpu());
  Event start(Device::cpu(), true), stop(Device::cpu(), true);
  start.record(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  stop.record(stream);
  EXPECT_GE(elapsed_us(start, stop), 2000.0);
  EXPECT_LT(elapsed_us(start, stop), 2e6);
}

TEST(Event, MovesWithWhatItKnows) {
  const Stream stream = Stream::default_of(Device::cpu());
  Event start(Device::cpu(), true), stop(Device::cpu(), true);
  start.record(stream);
  stop.record(stream);
  const double before_us = elapsed_us(start, stop);
  const Event moved(std::move(stop));
  EXPECT_DOUBLE_EQ(elapsed_us(start, moved), before_us);
}

TEST(Event, RecordedInABodyIsAPlaceInTheGraph) {
  const Stream stream = Stream::default_of(Device::cpu());
  Event event(Device::cpu(), true);
  capture(stream, [&] {
    EXPECT_TRUE(event.is_done());
    event.record(stream);
  });
  EXPECT_THROW(event.is_done(), UsageError);
  Event moved(std::move(event));
  EXPECT_THROW(moved.synchronize(), UsageError);
  EXPECT_THROW(elapsed_us(moved, moved), UsageError);
  moved.record(stream);
  EXPECT_TRUE(moved.is_done());
}

TEST(Event, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Event(Device::cuda(99)), DeviceError);
  Event event(Device::cpu());
  EXPECT_THROW(event.record(Stream::default_of(Device::cuda(0))), UsageError);
  EXPECT_THROW(elapsed_us(event, event), UsageError) << "it is not timed";
}

TEST(CopyAsync, IsDoneAtOnceOnTheCpu) {
  const Tensor source = empty({16}, DType::u8, Device::cpu());
  const Tensor destination = empty({16}, DType::u8, Device::cpu());
  std::memset(source.data(), 7, 16);
  const Event done = copy_async(destination, source, Stream::default_of(Device::cpu()));
  EXPECT_TRUE(done.is_done());
  EXPECT_EQ(std::memcmp(destination.data(), source.data(), 16), 0);
}

using CudaEvent = GpuTest;

TEST_F(CudaEvent, IsReachedWhenTheWorkBeforeItIsDone) {
  const OwnedStream stream(kDevice);
  Event event(kDevice);
  EXPECT_TRUE(event.is_done()) << "it was never recorded";
  {
    StreamGate gate(stream);
    event.record(stream);
    EXPECT_FALSE(event.is_done());
  }
  event.synchronize();
  EXPECT_TRUE(event.is_done());
}

TEST_F(CudaEvent, HoldsAnotherStreamBack) {
  const OwnedStream first(kDevice), second(kDevice);
  PinnedPool pool(kDevice);
  const Tensor host = pool.empty({64}, DType::u8);
  const Tensor on_device = empty({64}, DType::u8, second);
  synchronize(second);
  for (const bool is_guarded : {true, false}) {
    std::memset(host.data(), 0, 64);
    memset_bytes(on_device, 1, second);
    synchronize(second);
    StreamGate gate(first);
    memset_bytes(on_device, 2, first);
    Event written(kDevice);
    written.record(first);
    if (is_guarded) written.wait(second);
    const Event copied = copy_async(host, on_device, second);
    if (is_guarded)
      EXPECT_FALSE(copied.is_done());
    else
      EXPECT_TRUE(comes_true([&] { return copied.is_done(); }));
    gate.open();
    copied.synchronize();
    EXPECT_EQ(*host.data_as<std::uint8_t>(), is_guarded ? 2 : 1);
    synchronize(first);
  }
}

TEST_F(CudaEvent, ACpuStreamThatWaitsIsTheHostThatWaits) {
  const OwnedStream stream(kDevice);
  Event event(kDevice);
  StreamGate gate(stream);
  event.record(stream);
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  event.wait(Stream::default_of(Device::cpu()));
  EXPECT_TRUE(event.is_done());
}

TEST_F(CudaEvent, WaitsDoNotCrossTheBoundsOfACapture) {
  const OwnedStream stream(kDevice), side(kDevice), outside(kDevice);
  const Tensor tensor = empty({64}, DType::u8, stream);
  Event before(kDevice), within(kDevice), never(kDevice);
  before.record(stream);
  synchronize(stream);
  std::optional<Graph> inner;
  const auto body = [&](std::uint8_t value) {
    return [&, value] {
      EXPECT_THROW(before.wait(stream), UsageError);
      EXPECT_THROW(never.wait(stream), UsageError);
      EXPECT_THROW(within.wait(stream), UsageError) << "it is of no capture yet, or of an earlier one";
      EXPECT_NO_THROW(within.record(stream));
      EXPECT_THROW(within.wait(Stream::default_of(kDevice)), UsageError);
      inner = capture(outside, [&] { EXPECT_THROW(within.wait(outside), UsageError); });
      EXPECT_NO_THROW(within.wait(side));
      memset_bytes(tensor, value, side);
      EXPECT_NO_THROW(within.record(side));
      EXPECT_NO_THROW(within.wait(stream));
    };
  };
  for (const std::uint8_t value : {std::uint8_t{3}, std::uint8_t{4}}) {
    const Graph graph = capture(stream, body(value));
    graph.launch(stream);
    synchronize(stream);
    EXPECT_EQ(*to_device(tensor, Device::cpu()).data_as<std::uint8_t>(), value);
  }
  EXPECT_NO_THROW(within.record(outside));
  EXPECT_NO_THROW(within.wait(stream));
  synchronize(stream);
}

TEST_F(CudaEvent, TimesOnlyWhatWasReached) {
  const OwnedStream stream(kDevice);
  const Tensor tensor = empty({1 << 20}, DType::u8, stream);
  Event start(kDevice, true), stop(kDevice, true);
  EXPECT_THROW(elapsed_us(start, stop), DeviceError) << "neither was recorded";
  start.record(stream);
  memset_bytes(tensor, 1, stream);
  stop.record(stream);
  stop.synchronize();
  EXPECT_GT(elapsed_us(start, stop), 0.0);
  EXPECT_THROW(elapsed_us(start, Event(kDevice)), UsageError);
}

}  // namespace
}  // namespace kiln::test
