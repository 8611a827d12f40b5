// One process that drives several GPUs: whatever device is current on the thread, calls run where their tensors are.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/event.hpp"
#include "runtime/fork_join.hpp"
#include "runtime/graph.hpp"
#include "tests/runtime/stream_gate.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

class SeveralDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_problem(DeviceType::cuda).empty()) GTEST_SKIP() << compiler_problem(DeviceType::cuda);
    if (device_count(DeviceType::cuda) < 2) GTEST_SKIP() << "needs two GPUs";
  }

  /// As CUDA programs switch devices: `device` is current on this thread.
  static void make_current(Device device) { cuda::set_current_context(cuda::primary_context(device.index)); }

  static constexpr Device kFirst = Device::cuda(0), kSecond = Device::cuda(1);
};

TEST_F(SeveralDevices, CallsRunWhereTheirTensorsAreWhateverIsCurrent) {
  for (const Device current : {kFirst, kSecond}) {
    make_current(current);
    void* const context = cuda::current_context();
    for (const Device device : {kSecond, kFirst, kSecond}) {
      const Tensor x = make_f32({1, 2, 3, 4, 5}, device);
      const Tensor y = dispatch_gpu_op("add", {x, x});
      EXPECT_EQ(y.device(), device);
      EXPECT_EQ(read_f32(y), (std::vector<float>{2, 4, 6, 8, 10}));
      EXPECT_EQ(cuda::current_context(), context) << "the caller's device stays current";
    }
  }
  std::jthread([] {
    const Tensor x = make_f32({1, 2}, kSecond);
    EXPECT_EQ(read_f32(dispatch_gpu_op("add", {x, x})), (std::vector<float>{2, 4})) << "nothing is current";
  }).join();
}

TEST_F(SeveralDevices, PlansOfSeveralKernelsAndTensorMapsAreEachDevicesOwn) {
  constexpr std::int64_t kSize = 512;
  const std::vector<float> ones(kSize * kSize, 1.0f);
  for (int repeat = 0; repeat < 3; ++repeat)
    for (const Device device : {kFirst, kSecond}) {
      make_current(device == kFirst ? kSecond : kFirst);
      const Tensor x = make_f32(Dims{kSize, kSize}, ones, device);
      const Tensor half = dispatch_gpu_op("copy", {x}, {{"dtype", DType::bf16}});
      const Tensor product = dispatch_gpu_op("matmul", {half, half});
      const Tensor sum = dispatch_gpu_op("sum", {dispatch_gpu_op("copy", {product}, {{"dtype", DType::f32}})});
      EXPECT_EQ(read_f32(sum).at(0), static_cast<float>(kSize * kSize * kSize));
    }
}

TEST_F(SeveralDevices, AResolvedOpBelongsToOneDevice) {
  const Tensor first = make_f32({1, 2, 3}, kFirst), second = make_f32({1, 2, 3}, kSecond);
  const ResolvedOp op = resolve("add", {first, first});
  const Tensor out = empty({3}, DType::f32, kSecond);
  EXPECT_THROW(op({second, second}, {out}, Stream::default_of(kSecond)), UsageError);
  EXPECT_THROW(op({first, first}, {empty({3}, DType::f32, kFirst)}, Stream::default_of(kSecond)), UsageError);
  EXPECT_THROW(dispatch_gpu_op("add", {first, second}), UsageError);
  EXPECT_THROW(dispatch_gpu_op("add", {first, first}, {}, {.stream = Stream::default_of(kSecond)}), UsageError);
  EXPECT_EQ(read_f32(dispatch_gpu_op("add", {second, second})), (std::vector<float>{2, 4, 6}));
}

TEST_F(SeveralDevices, StreamsWaitForStreamsOfTheOtherDevice) {
  const OwnedStream first(kFirst), second(kSecond);
  const Tensor source = empty({1 << 20}, DType::u8, first), target = empty({1 << 20}, DType::u8, second);
  memset_bytes(source, 1, first);
  synchronize(first);
  synchronize(second);
  for (const Device current : {kFirst, kSecond}) {
    make_current(current);
    memset_bytes(source, 1, first);
    StreamGate gate(first);
    memset_bytes(source, 2, first);
    wait_stream(second, first);
    copy(target, source, second);
    Event copied(kSecond);
    copied.record(second);
    EXPECT_FALSE(copied.is_done());
    gate.open();
    std::jthread([&] { copied.synchronize(); }).join();  // a thread on which nothing is current
    EXPECT_TRUE(copied.is_done());
    EXPECT_EQ(*to_device(target, Device::cpu()).data_as<std::uint8_t>(), 2);
    memset_bytes(target, 0, second);
  }
  Event event(kFirst);
  EXPECT_THROW(event.record(second), UsageError);
}

TEST_F(SeveralDevices, MemoryIsFreedWhereItWasAllocated) {
  const std::int64_t size_bytes = std::int64_t{256} << 20;
  for (int i = 0; i < 2000; ++i) {  // 500 GB, were it not freed
    make_current(i % 2 == 0 ? kFirst : kSecond);
    Tensor tensor = empty({size_bytes}, DType::u8, i % 3 == 0 ? kFirst : kSecond);
    make_current(i % 5 == 0 ? kFirst : kSecond);
    tensor = Tensor();
  }
}

TEST_F(SeveralDevices, ForksAndGraphsOfEachDevice) {
  for (const Device device : {kSecond, kFirst}) {
    make_current(device == kFirst ? kSecond : kFirst);
    const OwnedStream stream(device);
    const Tensor x = make_f32({1, 2, 3}, device);
    const Tensor sum = empty({3}, DType::f32, stream), product = empty({3}, DType::f32, stream);
    const ResolvedOp add = resolve("add", {x, x}), mul = resolve("mul", {x, x});
    const auto both = [&] {
      fork_join(stream, {[&](Stream branch) { add({x, x}, {sum}, branch); },
                         [&](Stream branch) { mul({x, x}, {product}, branch); }});
    };
    both();
    const Graph graph = capture(stream, both);
    graph.launch(stream);
    synchronize(stream);
    EXPECT_EQ(read_f32(sum), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(read_f32(product), (std::vector<float>{1, 4, 9}));
    EXPECT_THROW(graph.launch(Stream::default_of(device == kFirst ? kSecond : kFirst)), UsageError);
  }
}

TEST_F(SeveralDevices, AThreadForEach) {
  std::vector<std::jthread> threads;
  for (int ordinal = 0; ordinal < device_count(DeviceType::cuda); ++ordinal)
    threads.emplace_back([device = Device::cuda(ordinal)] {
      const OwnedStream stream(device);
      Tensor x = make_f32(std::vector<float>(10'000, 0.0f), device);
      for (int i = 0; i < 500; ++i) x = dispatch_gpu_op("add", {x}, {{"other", 1.0}}, {.stream = stream});
      synchronize(stream);
      EXPECT_EQ(read_f32(x).at(9'999), 500.0f);
    });
}

}  // namespace
}  // namespace kiln::test
