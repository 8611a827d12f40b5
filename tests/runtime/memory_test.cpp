#include "runtime/memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

std::vector<std::int32_t> counting(std::int64_t count) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

std::vector<std::int32_t> values_of(const Tensor& tensor) {
  const Tensor host = to_device(tensor, Device::cpu());
  const auto* first = host.data_as<std::int32_t>();
  return std::vector<std::int32_t>(first, first + host.numel());
}

TEST(Memory, CpuTensorsAreDenseAndAligned) {
  for (std::int64_t size : {1, 3, 64, 1000}) {
    const Tensor tensor = empty({size, 3}, DType::f16, Device::cpu());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    EXPECT_TRUE(tensor.view().is_contiguous());
    EXPECT_EQ(tensor.shape(), (Dims{size, 3}));
    std::memset(tensor.data(), 0xA5, static_cast<std::size_t>(size * 3 * 2));
  }
}

TEST(Memory, ZeroSizeTensorsNeedNoMemory) {
  const Tensor tensor = empty({4, 0, 2}, DType::f32, Device::cpu());
  EXPECT_EQ(tensor.numel(), 0);
  EXPECT_EQ(tensor.data(), nullptr);
  copy(tensor, tensor, Stream::default_of(Device::cpu()));
  memset_bytes(tensor, 1, Stream::default_of(Device::cpu()));
  EXPECT_EQ(to_device(tensor, Device::cpu()).numel(), 0);
}

TEST(Memory, ScalarsHoldOneElement) {
  EXPECT_NE(empty({}, DType::f64, Device::cpu()).data(), nullptr);
}

TEST(Memory, RefusesImpossibleShapes) {
  EXPECT_THROW(empty({-1}, DType::f32, Device::cpu()), UsageError);
  EXPECT_THROW(empty({std::numeric_limits<std::int64_t>::max()}, DType::f64, Device::cpu()), UsageError);
  EXPECT_THROW(empty({2}, DType::f32, Device::cuda(99)), DeviceError);
}

TEST(Memory, SaysHowMuchWasAskedForWhenTheCpuHasTooLittle) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process at an allocation of this size";
#endif
  const std::int64_t absurd = std::int64_t{1} << 60;
  EXPECT_THAT(error_message<DeviceError>([&] { empty({absurd}, DType::u8, Device::cpu()); }),
              HasSubstr(std::to_string(absurd)));
}

TEST(Memory, CopiesAndFillsOnTheCpu) {
  const Stream stream = Stream::default_of(Device::cpu());
  std::vector<std::int32_t> values = counting(6);
  const Tensor tensor = empty({2, 3}, DType::i32, Device::cpu());
  copy(tensor, dense_view(values.data(), DType::i32, {2, 3}), stream);
  EXPECT_EQ(values_of(tensor), values);
  memset_bytes(tensor, 0xFF, stream);
  EXPECT_EQ(values_of(tensor), std::vector<std::int32_t>(6, -1));
}

TEST(Memory, CopyRefusesSidesThatDiffer) {
  const Stream stream = Stream::default_of(Device::cpu());
  std::vector<std::int32_t> values = counting(6);
  const TensorView source = dense_view(values.data(), DType::i32, {2, 3});
  EXPECT_THROW(copy(empty({3, 2}, DType::i32, Device::cpu()), source, stream), UsageError);
  EXPECT_THROW(copy(empty({2, 3}, DType::f32, Device::cpu()), source, stream), UsageError);
  TensorView transposed = dense_view(values.data(), DType::i32, {2, 3});
  transposed.strides = {1, 2};
  EXPECT_THROW(copy(empty({2, 3}, DType::i32, Device::cpu()), transposed, stream), UsageError);
  EXPECT_THROW(memset_bytes(transposed, 0, stream), UsageError);
}

/// Views of 24 counting values with every kind of stride, and what reading them in order gives.
struct StridedCase {
  const char* name;
  std::int64_t offset;
  Dims shape;
  Dims strides;
  std::vector<std::int32_t> expected;
};
std::vector<StridedCase> strided_cases() {
  return {
      {"transposed", 0, {3, 2}, {1, 3}, {1, 4, 2, 5, 3, 6}},
      {"reversed", 5, {6}, {-1}, {6, 5, 4, 3, 2, 1}},
      {"broadcast", 2, {2, 3}, {0, 1}, {3, 4, 5, 3, 4, 5}},
      {"stepped", 1, {4}, {5}, {2, 7, 12, 17}},
      {"reversed rows, stepped columns", 12, {3, 2}, {-6, 2}, {13, 15, 7, 9, 1, 3}},
      {"empty", 0, {0, 2}, {7, 3}, {}},
  };
}

TEST(Memory, ToDeviceMakesStridedViewsDense) {
  std::vector<std::int32_t> values = counting(24);
  for (const StridedCase& strided : strided_cases()) {
    const TensorView view{values.data() + strided.offset, DType::i32, Device::cpu(), strided.shape, strided.strides};
    const Tensor dense = to_device(view, Device::cpu());
    EXPECT_TRUE(dense.view().is_contiguous());
    EXPECT_EQ(values_of(dense), strided.expected) << strided.name;
  }
}

TEST(Memory, ToDeviceOwnsItsCopy) {
  std::vector<std::int32_t> values = counting(3);
  const Tensor copied = to_device(dense_view(values.data(), DType::i32, {3}), Device::cpu());
  values[0] = 100;
  EXPECT_EQ(values_of(copied), counting(3));
}

using CudaMemory = GpuTest;

TEST_F(CudaMemory, RoundTripsThroughTheDevice) {
  std::vector<std::int32_t> values = counting(100'003);
  const Tensor on_device = to_device(dense_view(values.data(), DType::i32, {100'003}), kDevice);
  EXPECT_EQ(on_device.device(), kDevice);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(on_device.data()) % 256, 0U);
  EXPECT_EQ(values_of(on_device), values);
  EXPECT_EQ(values_of(to_device(on_device, kDevice)), values);
}

TEST_F(CudaMemory, ToDeviceMakesStridedViewsDense) {
  std::vector<std::int32_t> values = counting(24);
  const Tensor on_device = to_device(dense_view(values.data(), DType::i32, {24}), kDevice);
  for (const StridedCase& strided : strided_cases()) {
    const TensorView view{on_device.data_as<std::int32_t>() + strided.offset, DType::i32, kDevice, strided.shape,
                          strided.strides};
    EXPECT_EQ(values_of(to_device(view, kDevice)), strided.expected) << strided.name;
    EXPECT_EQ(values_of(to_device(view, Device::cpu())), strided.expected) << strided.name;
  }
}

TEST_F(CudaMemory, FillsInStreamOrder) {
  const OwnedStream stream(kDevice);
  const Tensor tensor = empty({1 << 20}, DType::i32, stream);
  memset_bytes(tensor, 0x01, stream);
  memset_bytes(tensor, 0xFF, stream);
  synchronize(stream);
  EXPECT_EQ(values_of(tensor), std::vector<std::int32_t>(1 << 20, -1));
}

TEST_F(CudaMemory, ReusesFreedMemoryWithoutGrowing) {
  const OwnedStream stream(kDevice);
  // 512 times 1 GiB is more than any device has: this only ends if the pool reuses what goes.
  for (int i = 0; i < 512; ++i) memset_bytes(empty({1 << 30}, DType::u8, stream), 1, stream);
  synchronize(stream);
}

TEST_F(CudaMemory, SaysHowMuchWasAskedForWhenMemoryIsShort) {
  const std::int64_t absurd = std::int64_t{1} << 42;
  EXPECT_THAT(error_message<DeviceError>([&] { empty({absurd}, DType::u8, kDevice); }),
              Says(std::to_string(absurd), "cuda:0"));
  // The failure leaves the device usable.
  EXPECT_NE(empty({1024}, DType::f32, kDevice).data(), nullptr);
}

TEST_F(CudaMemory, CopiesBetweenDevices) {
  if (device_count(DeviceType::cuda) < 2) GTEST_SKIP() << "needs two CUDA devices";
  std::vector<std::int32_t> values = counting(100'003);
  const Tensor first = to_device(dense_view(values.data(), DType::i32, {100'003}), Device::cuda(0));
  const Tensor second = to_device(first, Device::cuda(1));
  EXPECT_EQ(second.device(), Device::cuda(1));
  EXPECT_EQ(values_of(second), values);
}

TEST_F(CudaMemory, RefusesAStreamOfAnotherDevice) {
  const Tensor tensor = empty({16}, DType::i32, kDevice);
  EXPECT_THROW(memset_bytes(tensor, 0, Stream::default_of(Device::cpu())), UsageError);
  EXPECT_THROW(copy(tensor, empty({16}, DType::i32, Device::cpu()), Stream::default_of(Device::cpu())), UsageError);
}

TEST_F(CudaMemory, MemoryThatDiesDuringACaptureIsFreedAfterIt) {
  const OwnedStream stream(kDevice);
  const Tensor target = empty({1024}, DType::i32, stream);
  std::optional<Tensor> outsider = empty({1 << 20}, DType::u8, stream);
  const Graph graph = capture(stream, [&] {
    outsider.reset();
    memset_bytes(target, 0xFF, stream);
  });
  const Tensor afterwards = empty({1 << 20}, DType::u8, stream);
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(values_of(target), std::vector<std::int32_t>(1024, -1));
}

TEST_F(CudaMemory, MemoryAllocatedInACaptureBelongsToTheGraph) {
  const OwnedStream stream(kDevice);
  const Tensor result = empty({1024}, DType::i32, stream);
  const Graph graph = capture(stream, [&] {
    const Tensor temporary = empty({1024}, DType::i32, stream);
    memset_bytes(temporary, 0xFF, stream);
    copy(result, temporary, stream);
  });
  for (int replay = 0; replay < 3; ++replay) {
    memset_bytes(result, 0, stream);
    graph.launch(stream);
    synchronize(stream);
    EXPECT_EQ(values_of(result), std::vector<std::int32_t>(1024, -1)) << "replay " << replay;
  }
}

}  // namespace
}  // namespace kiln::test
