#include "runtime/stream.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/graph.hpp"
#include "runtime/memory.hpp"

namespace kiln {
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

class CudaStream : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  }
};

TEST_F(CudaStream, StreamsOfEveryDeviceSynchronize) {
  for (int ordinal = 0; ordinal < device_count(DeviceType::cuda); ++ordinal) {
    const OwnedStream stream(Device::cuda(ordinal));
    EXPECT_NE(stream.get().handle, nullptr);
    memset_bytes(empty({1024}, DType::u8, stream), 1, stream);
    synchronize(stream);
    synchronize(Stream::default_of(Device::cuda(ordinal)));
  }
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
}  // namespace kiln
