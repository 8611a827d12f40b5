#include "runtime/graph.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "runtime/event.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  const Tensor host = to_device(tensor, Device::cpu());
  return {host.data_as<std::uint8_t>(), host.data_as<std::uint8_t>() + host.numel()};
}

TEST(Graph, OnTheCpuIsAListOfCalls) {
  const Stream stream = Stream::default_of(Device::cpu());
  const Tensor a = empty({64}, DType::u8, stream), b = empty({64}, DType::u8, stream);
  memset_bytes(a, 1, stream);
  memset_bytes(b, 2, stream);
  std::optional<Tensor> own;
  Graph graph = capture(stream, [&] {
    own = empty({64}, DType::u8, stream);
    copy(*own, a, stream);
    copy(b, *own, stream);
    memset_bytes(a, 7, stream);
    copy(empty({0}, DType::u8, stream), empty({0}, DType::u8, stream), stream);
  });
  EXPECT_EQ(graph.num_calls(), 4u);
  EXPECT_EQ(to_string(graph.call(1)), "copy(u8 (64) strides (1) on cpu) -> u8 (64) strides (1) on cpu");
  EXPECT_EQ(to_string(graph.call(2)), "memset_bytes() -> u8 (64) strides (1) on cpu [value=7]");
  EXPECT_EQ(bytes_of(b)[63], 2);
  graph.launch(stream);
  EXPECT_EQ(bytes_of(b)[63], 1);
  EXPECT_EQ(bytes_of(a)[0], 7);
  graph.launch(stream);
  EXPECT_EQ(bytes_of(b)[0], 7);
  EXPECT_THAT(
      error_message<UsageError>([&] { graph.update(0, std::vector<TensorView>{a}, std::vector<TensorView>{b}); }),
      Says("call 0", "copy(", "Graph::update(stream, body)"));
  graph.update(stream, [&] {
    copy(a, b, stream);
    copy(a, b, stream);
    memset_bytes(b, 9, stream);
    copy(a, a, stream);
  });
  graph.launch(stream);
  EXPECT_EQ(bytes_of(b)[0], 9);
  EXPECT_THAT(error_message<UsageError>([&] { graph.update(stream, [&] { memset_bytes(b, 9, stream); }); }),
              Says("call 0 is memset_bytes(", "kiln::capture"));
}

TEST(Graph, OfTheCpuIsTheRecordingThreads) {
  const Stream stream = Stream::default_of(Device::cpu());
  const Tensor a = empty({64}, DType::u8, stream);
  memset_bytes(a, 1, stream);
  const Graph graph = capture(stream, [&] {
    std::thread([&] {
      EXPECT_FALSE(is_capturing(stream));
      memset_bytes(a, 2, stream);
    }).join();
    memset_bytes(a, 3, stream);
  });
  EXPECT_EQ(graph.num_calls(), 1u);
  EXPECT_EQ(bytes_of(a)[0], 2);
}

TEST(Graph, OfACaptureInTwoHalves) {
  const Stream stream = Stream::default_of(Device::cpu());
  const Tensor a = empty({64}, DType::u8, stream);
  memset_bytes(a, 1, stream);
  GraphCapture recording(stream);
  EXPECT_TRUE(is_capturing(stream));
  memset_bytes(a, 2, stream);
  EXPECT_THAT(error_message<UsageError>([&] { GraphCapture nested(stream); }), HasSubstr("captured already"));
  EXPECT_TRUE(is_capturing(stream));
  std::string elsewhere;
  std::thread([&] { elsewhere = error_message<UsageError>([&] { recording.end(); }); }).join();
  EXPECT_THAT(elsewhere, HasSubstr("thread that began it"));
  Graph graph = recording.end();
  EXPECT_FALSE(is_capturing(stream));
  EXPECT_THAT(error_message<UsageError>([&] { recording.end(); }), HasSubstr("ended already"));
  EXPECT_EQ(bytes_of(a)[63], 1);
  graph.launch(stream);
  EXPECT_EQ(bytes_of(a)[63], 2);

  GraphCapture other(stream);
  memset_bytes(a, 3, stream);
  other.end(graph);
  graph.launch(stream);
  EXPECT_EQ(bytes_of(a)[0], 3);
  GraphCapture different(stream);
  EXPECT_THAT(error_message<UsageError>([&] { different.end(graph); }),
              HasSubstr("it makes 0 calls where there were 1"));
  EXPECT_FALSE(is_capturing(stream)) << "a refused update ends the capture too";
  {
    const GraphCapture abandoned(stream);
    memset_bytes(a, 4, stream);
  }
  EXPECT_FALSE(is_capturing(stream));
  graph.launch(stream);
  EXPECT_EQ(bytes_of(a)[0], 3) << "and the graph is as before";
}

using CudaGraph = GpuTest;

TEST_F(CudaGraph, AStreamThatWasNotJoinedIsAnError) {
  const OwnedStream stream(kDevice), side(kDevice);
  const Tensor target = empty({64}, DType::u8, kDevice);
  EXPECT_THAT(error_message<DeviceError>([&] {
                capture(stream, [&] {
                  Event fork(kDevice);
                  fork.record(stream);
                  fork.wait(side);
                  memset_bytes(target, 1, side);
                });
              }),
              HasSubstr("was not joined"));
  EXPECT_FALSE(is_capturing(stream));
  EXPECT_FALSE(is_capturing(side));
  memset_bytes(target, 2, stream);
  synchronize(stream);
  EXPECT_EQ(bytes_of(target)[0], 2);
}

TEST_F(CudaGraph, OfACaptureInTwoHalves) {
  const OwnedStream stream(kDevice);
  const Tensor a = empty({64}, DType::u8, kDevice);
  memset_bytes(a, 1, stream);
  synchronize(stream);
  GraphCapture recording(stream);
  EXPECT_TRUE(is_capturing(stream));
  memset_bytes(a, 2, stream);
  Graph graph = recording.end();
  EXPECT_FALSE(is_capturing(stream));
  EXPECT_EQ(bytes_of(a)[63], 1);
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(bytes_of(a)[63], 2);
  {
    const GraphCapture abandoned(stream);
    memset_bytes(a, 4, stream);
  }
  EXPECT_FALSE(is_capturing(stream));
  GraphCapture on_the_cpu(Stream::default_of(Device::cpu()));
  EXPECT_THAT(error_message<UsageError>([&] { on_the_cpu.end(graph); }), HasSubstr("recorded on cuda:0"));
  EXPECT_EQ(on_the_cpu.end().num_calls(), 0u) << "a graph of another device leaves the capture open";
  GraphCapture other(stream);
  memset_bytes(a, 3, stream);
  other.end(graph);
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(bytes_of(a)[63], 3);
}

TEST_F(CudaGraph, ForkedStreamsTakeFromItsMemory) {
  const OwnedStream stream(kDevice), side(kDevice);
  std::optional<Tensor> left, right;
  const Graph graph = capture(stream, [&] {
    Event fork(kDevice), join(kDevice);
    fork.record(stream);
    fork.wait(side);
    left = empty({1 << 10}, DType::u8, stream);
    right = empty({1 << 10}, DType::u8, side);
    memset_bytes(*left, 1, stream);
    memset_bytes(*right, 2, side);
    join.record(side);
    join.wait(stream);
    copy(*left, *right, stream);
  });
  EXPECT_EQ(graph.num_calls(), 3u);
  EXPECT_EQ(graph.memory_bytes(), 2 << 20) << "small blocks share a segment";
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(bytes_of(*left)[1023], 2);
}

TEST_F(CudaGraph, CopiesWithThePageLockedHostAreRecorded) {
  const OwnedStream stream(kDevice);
  PinnedPool pool(kDevice);
  const Tensor pinned = pool.empty({64}, DType::u8), back = pool.empty({64}, DType::u8);
  const Tensor pageable = empty({64}, DType::u8, Device::cpu()), target = empty({64}, DType::u8, kDevice);
  const Graph graph = capture(stream, [&] {
    EXPECT_THAT(error_message<UsageError>([&] { copy(target, pageable, stream); }), HasSubstr("page-locked"));
    EXPECT_THAT(error_message<UsageError>([&] { copy(pageable, target, stream); }), HasSubstr("page-locked"));
    EXPECT_THAT(error_message<UsageError>([&] { copy(pageable, pageable, stream); }), HasSubstr("on the CPU"));
    EXPECT_THAT(error_message<UsageError>([&] { memset_bytes(target, 1, Stream::default_of(kDevice)); }),
                HasSubstr("default stream"));
    copy(target, pinned, stream);
    copy(back, target, stream);
  });
  EXPECT_EQ(graph.num_calls(), 2u);
  for (const std::uint8_t value : {std::uint8_t{5}, std::uint8_t{6}}) {
    std::memset(pinned.data(), value, 64);
    graph.launch(stream);
    synchronize(stream);
    EXPECT_EQ(back.data_as<std::uint8_t>()[63], value);
  }
}

TEST_F(CudaGraph, AnUpdateMovesCopiesAndFills) {
  const OwnedStream stream(kDevice);
  const Tensor a = empty({64}, DType::u8, kDevice), b = empty({64}, DType::u8, kDevice);
  const auto body = [&](const Tensor& to, const Tensor& from, std::uint8_t value) {
    return [&stream, to, from, value] {
      memset_bytes(from, value, stream);
      copy(to, from, stream);
    };
  };
  Graph graph = capture(stream, body(a, b, 1));
  graph.update(stream, body(b, a, 2));
  memset_bytes(a, 0, stream);
  memset_bytes(b, 0, stream);
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(bytes_of(b)[5], 2);
}

/// A graph of somebody else's, made with the driver alone.
class ForeignGraph {
 public:
  ForeignGraph() { check(call<int(void**, unsigned)>("cuGraphCreate")(&graph_, 0)); }
  ~ForeignGraph() {
    if (executable_ != nullptr) call<int(void*)>("cuGraphExecDestroy")(executable_);
    call<int(void*)>("cuGraphDestroy")(graph_);
  }
  void* get() const { return graph_; }
  std::size_t num_nodes() {
    std::size_t count = 0;
    check(call<int(void*, void**, std::size_t*)>("cuGraphGetNodes")(graph_, nullptr, &count));
    return count;
  }
  void launch(Stream stream) {
    if (executable_ == nullptr)
      check(call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable_, graph_, 0));
    check(call<int(void*, void*)>("cuGraphLaunch")(executable_, stream.handle));
  }

 private:
  template <typename Function>
  Function* call(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  static void check(int code) {
    if (code != 0) throw DeviceError("a driver call of the test", code, "unexpected");
  }
  void* library_ = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

TEST_F(CudaGraph, WorkGoesIntoAGraphOfTheCallers) {
  const OwnedStream stream(kDevice);
  const Tensor result = empty({64}, DType::u8, kDevice);
  synchronize(Stream::default_of(kDevice));
  ForeignGraph graph;
  std::vector<void*> last;
  try {
    last = capture_into(graph.get(), {}, stream, [&] {
      const Tensor temporary = empty({64}, DType::u8, stream);
      memset_bytes(temporary, 3, stream);
      copy(result, temporary, stream);
    });
  } catch (const DeviceError& error) {
    GTEST_SKIP() << error.what();  // a driver that is too old
  }
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(graph.num_nodes(), 2u);
  EXPECT_THROW(capture_into(graph.get(), last, stream,
                            [&] {
                              memset_bytes(result, 9, stream);
                              throw std::runtime_error("stop");
                            }),
               std::runtime_error);
  EXPECT_EQ(graph.num_nodes(), 2u) << "what a failed recording added stayed";
  EXPECT_FALSE(is_capturing(stream));
  const Tensor copied = empty({64}, DType::u8, kDevice);
  last = capture_into(graph.get(), last, stream, [&] { copy(copied, result, stream); });
  EXPECT_EQ(graph.num_nodes(), 3u);
  for (int round = 0; round < 2; ++round) {
    memset_bytes(result, 0, stream);
    graph.launch(stream);
    synchronize(stream);
    EXPECT_EQ(bytes_of(copied)[63], 3);
  }
}

TEST_F(CudaGraph, NoGraphAndTheDefaultStreamAreRefused) {
  ForeignGraph graph;
  EXPECT_THROW(capture_into(graph.get(), {}, Stream::default_of(kDevice), [] {}), UsageError);
  EXPECT_THROW(capture_into(nullptr, {}, OwnedStream(kDevice), [] {}), UsageError);
}

TEST(Graph, OfTheCpuIsNoneOfCudas) {
  EXPECT_THROW(capture_into(nullptr, {}, Stream::default_of(Device::cpu()), [] {}), UsageError);
}

}  // namespace
}  // namespace kiln::test
