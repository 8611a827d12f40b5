#include "runtime/recording.hpp"

#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "runtime/graph.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr Device kCpu = Device::cpu();
constexpr Device kGpu = Device::cuda(0);

TEST(Recording, WorkOfTheCpuIsRefusedInTheBodyOfAGpusGraph) {
  const Stream cpu = Stream::default_of(kCpu);
  const Tensor from = empty({16}, DType::u8, kCpu), to = empty({16}, DType::u8, kCpu);
  memset_bytes(from, 3, cpu);
  memset_bytes(to, 0, cpu);
  const Graph of_the_cpu = capture(cpu, [&] { copy(to, from, cpu); });
  {
    int queue = 0;  // stands for a stream that nobody asks anything of
    const RecordingScope scope(std::make_shared<Recording>(Stream{kGpu, &queue}, 1));
    EXPECT_THAT(usage_message([&] { copy(to, from, cpu); }),
                Says("'copy' was called on cpu in the body of a graph of cuda:0", "before"));
    EXPECT_THAT(usage_message([&] { memset_bytes(to, 1, cpu); }), HasSubstr("'memset_bytes' was called on cpu"));
    EXPECT_THAT(usage_message([&] { of_the_cpu.launch(cpu); }), HasSubstr("'Graph::launch' was called on cpu"));
    EXPECT_EQ(to.data_as<std::uint8_t>()[0], 0);
    // Another thread is in no body.
    std::thread([&] { of_the_cpu.launch(cpu); }).join();
    EXPECT_EQ(to.data_as<std::uint8_t>()[0], 3);
    // A new tensor on the host is no work of a graph's.
    EXPECT_EQ(to_device(from, kCpu).data_as<std::uint8_t>()[15], 3);
  }
  memset_bytes(to, 5, cpu);
  EXPECT_EQ(to.data_as<std::uint8_t>()[0], 5);
}

TEST(Recording, WorkOfAGpuIsRefusedInTheBodyOfTheCpusGraph) {
  capture(Stream::default_of(kCpu), [&] {
    EXPECT_THAT(usage_message([] { Recording::of_work(Stream::default_of(kGpu), "some_op"); }),
                Says("'some_op' was enqueued on the default stream of cuda:0", "in the body of a graph of cpu",
                     "a graph of its own"));
  });
}

using CudaRecording = GpuTest;

TEST_F(CudaRecording, WorkOnAStreamOutsideIsRefusedUntilItJoins) {
  const OwnedStream stream(kGpu), other(kGpu);
  const Tensor target = empty({64}, DType::u8, stream);
  synchronize(stream);
  const Graph graph = capture(stream, [&] {
    EXPECT_THAT(usage_message([&] { memset_bytes(target, 1, other); }),
                Says("'memset_bytes' was enqueued on a stream that is not being captured, of cuda:0", "forked off it"));
    wait_stream(other, stream);
    memset_bytes(target, 2, other);
    wait_stream(stream, other);
  });
  EXPECT_EQ(graph.num_calls(), 1u);
  memset_bytes(target, 0, stream);
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(*to_device(target, kCpu).data_as<std::uint8_t>(), 2);
}

TEST_F(CudaRecording, ACaptureWithinTheBodyOfAnotherHoldsItsOwn) {
  const OwnedStream outer_stream(kGpu), inner_stream(kGpu);
  const Tensor a = empty({64}, DType::u8, outer_stream), b = empty({64}, DType::u8, outer_stream);
  memset_bytes(a, 0, outer_stream);
  memset_bytes(b, 0, outer_stream);
  synchronize(outer_stream);
  std::optional<Graph> inner;
  const Graph outer = capture(outer_stream, [&] {
    inner = capture(inner_stream, [&] {
      memset_bytes(b, 7, inner_stream);
      memset_bytes(a, 6, outer_stream);
    });
  });
  EXPECT_EQ(inner->num_calls(), 1u);
  EXPECT_EQ(outer.num_calls(), 1u);
  inner->launch(outer_stream);
  outer.launch(outer_stream);
  synchronize(outer_stream);
  EXPECT_EQ(*to_device(b, kCpu).data_as<std::uint8_t>(), 7);
  EXPECT_EQ(*to_device(a, kCpu).data_as<std::uint8_t>(), 6);
}

}  // namespace
}  // namespace kiln::test
