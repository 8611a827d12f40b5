#include "runtime/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "registry/dispatch.hpp"
#include "registry/registry.hpp"
#include "registry/tuning.hpp"
#include "registry/warm_up.hpp"
#include "tests/ops/usage_message.hpp"
#include "tests/registry/device_tensors.hpp"
#include "tests/registry/kv_tensors.hpp"

namespace kiln {
namespace {

using kiln::testing::make_f32;
using kiln::testing::make_integers;
using kiln::testing::message_of;
using kiln::testing::read_bits;
using kiln::testing::read_f32;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Kind = UsageError::Kind;

/// On every device there is: a graph means the same everywhere.
class GraphTest : public kiln::testing::DevicesTest {
 protected:
  std::vector<float> random_values(std::int64_t count) {
    std::uniform_real_distribution<float> values(-2, 2);
    std::vector<float> drawn(static_cast<std::size_t>(count));
    for (float& value : drawn) value = values(random_);
    return drawn;
  }
  Tensor random_tensor(const Dims& shape, Device device) {
    return make_f32(shape, random_values(num_elements(shape)), device);
  }
  /// Fresh values in memory that a graph reads.
  void refill(const Tensor& tensor, Stream stream) {
    copy(tensor, random_tensor(tensor.shape(), tensor.device()), stream);
    synchronize(stream);
  }
  static void poison(const Tensor& tensor, Stream stream) {
    memset_bytes(tensor, 0xCD, stream);
    synchronize(stream);
  }
  static std::vector<float> read(const Tensor& tensor, Stream stream) {
    synchronize(stream);
    return read_f32(tensor);
  }
  static std::vector<float> replay(const Graph& graph, const Tensor& result, Stream stream) {
    graph.launch(stream);
    return read(result, stream);
  }
  static Tensor add(const Tensor& x, const Tensor& y, Stream stream) {
    return dispatch_gpu_op("add", {x, y}, {}, {.stream = stream});
  }

  std::mt19937_64 random_{std::random_device{}()};
};

/// A new op, whose kernel nobody has loaded: x * x * x.
std::string register_cube() {
  static std::atomic<int> count = 0;
  const std::string name = "graph_test_cube_" + std::to_string(count++);
  const std::string text = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void )" + name +
                           R"((const T* x, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto a = tl::load(x + offsets, mask);
  tl::store(out + offsets, a * a * a, mask);
}
)";
  register_elementwise_kernel({.name = name,
                               .doc = "x^3",
                               .source = {name + ".hpp", text, {}},
                               .kernel = name,
                               .num_inputs = 1,
                               .dtypes = {DType::f32}});
  return name;
}

/// A small piece of a model.
struct Layer {
  Tensor x, residual, gain, weight, bias;

  Tensor run(Stream stream) const {
    const DispatchOptions on{.stream = stream};
    const Tensor sum = dispatch_gpu_op("add", {x, residual}, {}, on);
    const Tensor normal =
        dispatch_gpu_op("rms_norm", {sum, gain}, {{"normalized_shape", std::vector<std::int64_t>{48}}}, on);
    return dispatch_gpu_op("linear_relu", {normal, weight, bias}, {}, on);
  }
};

TEST_F(GraphTest, ReplaysAChainOnFreshData) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Layer layer{random_tensor({5, 48}, device), random_tensor({5, 48}, device), random_tensor({48}, device),
                      random_tensor({33, 48}, device), random_tensor({33}, device)};
    layer.run(stream);
    std::optional<Tensor> result;
    const Graph graph = capture(stream, [&] { result = layer.run(stream); });
    ASSERT_EQ(graph.num_calls(), 3u);
    EXPECT_THAT(to_string(graph.call(2)),
                AllOf(HasSubstr("linear_relu(f32 (5, 48)"), HasSubstr("-> f32 (5, 33)"), HasSubstr("[variant ")));
    EXPECT_EQ(graph.call(1).inputs[0].data, graph.call(0).outputs[0].data);
    for (int round = 0; round < 4; ++round) {
      refill(layer.x, stream);
      refill(layer.residual, stream);
      poison(*result, stream);
      EXPECT_EQ(replay(graph, *result, stream), read(layer.run(stream), stream)) << to_string(device);
    }
  }
}

TEST_F(GraphTest, NothingRunsWhileItIsRecorded) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({100}, device), y = random_tensor({100}, device),
                 copied = random_tensor({100}, device);
    const std::vector<Tensor> out = {empty({100}, DType::f32, device)};
    dispatch_gpu_op("add", {x, y}, {}, {.outputs = out, .stream = stream.get()});
    const std::vector<float> sum = read(out[0], stream);
    poison(out[0], stream);
    const std::vector<float> poisoned = read(out[0], stream), before = read(copied, stream);
    const Graph graph = capture(stream, [&] {
      EXPECT_TRUE(is_capturing(stream));
      dispatch_gpu_op("add", {x, y}, {}, {.outputs = out, .stream = stream.get()});
      copy(copied, out[0], stream);
      memset_bytes(out[0], 0, stream);
    });
    EXPECT_FALSE(is_capturing(stream));
    EXPECT_EQ(std::memcmp(read(out[0], stream).data(), poisoned.data(), 400), 0) << to_string(device);
    EXPECT_EQ(read(copied, stream), before) << to_string(device);
    ASSERT_EQ(graph.num_calls(), 3u);
    EXPECT_EQ(graph.call(1).op, "copy");
    EXPECT_EQ(graph.call(2).op, "memset_bytes");
    EXPECT_EQ(replay(graph, copied, stream), sum) << to_string(device);
    EXPECT_THAT(read(out[0], stream), Each(0.0F)) << to_string(device);
  }
}

TEST_F(GraphTest, ResultsStayBetweenReplaysAndAfterTheGraph) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({1000}, device), one = make_f32(std::vector<float>(1000, 1), device);
    add(x, one, stream);
    std::optional<Tensor> kept, dropped;
    std::vector<float> expected;
    {
      const Graph graph = capture(stream, [&] {
        kept = add(x, one, stream);
        dropped = add(*kept, one, stream);
      });
      dropped.reset();
      const Tensor elsewhere = random_tensor({1000}, device);  // must not find the dropped result's memory
      const std::vector<float> untouched = read(elsewhere, stream);
      for (int round = 0; round < 3; ++round) {
        refill(x, stream);
        expected = read(add(x, one, stream), stream);
        EXPECT_EQ(replay(graph, *kept, stream), expected) << to_string(device);
      }
      EXPECT_EQ(read(elsewhere, stream), untouched);
      graph.launch(stream);  // may still run when the graph goes
    }
    EXPECT_EQ(read(*kept, stream), expected) << to_string(device);
    EXPECT_EQ(read(add(*kept, one, stream), stream).size(), 1000u);
  }
}

TEST_F(GraphTest, MemoryServesAgainWhereNobodyHoldsIt) {
  constexpr std::int64_t kElements = 1 << 20;
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({kElements}, device), one = make_f32(std::vector<float>(kElements, 1), device);
    add(x, one, stream);
    std::optional<Tensor> early, last;
    const Graph graph = capture(stream, [&] {
      Tensor running = add(x, one, stream);
      early = add(running, one, stream);
      for (int i = 0; i < 20; ++i) running = add(running, one, stream);
      last = running;
    });
    EXPECT_LE(graph.memory_bytes(), 4 * kElements * 4) << "22 results of which 3 are alive at a time";
    EXPECT_GE(graph.memory_bytes(), 3 * kElements * 4);
    refill(x, stream);
    Tensor running = add(x, one, stream);
    const Tensor expected_early = add(running, one, stream);
    for (int i = 0; i < 20; ++i) running = add(running, one, stream);
    EXPECT_EQ(replay(graph, *last, stream), read(running, stream)) << to_string(device);
    EXPECT_EQ(read(*early, stream), read(expected_early, stream)) << to_string(device);
  }
}

TEST_F(GraphTest, HoldsTheMemoryItNames) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor source = random_tensor({64}, device), one = make_f32(std::vector<float>(64, 1), device);
    const std::vector<float> expected = read(add(source, one, stream), stream);
    auto is_gone = std::make_shared<bool>(false);
    std::optional<Tensor> x =
        Tensor(source.view(), std::shared_ptr<void>(source.data(), [source, is_gone](void*) { *is_gone = true; }));
    std::optional<Tensor> result;
    std::optional<Graph> graph = capture(stream, [&] { result = add(*x, one, stream); });
    x.reset();
    EXPECT_FALSE(*is_gone) << "the graph's next launch would read freed memory";
    EXPECT_EQ(replay(*graph, *result, stream), expected);
    graph.reset();
    synchronize(stream);
    EXPECT_TRUE(*is_gone || device.is_cuda()) << "the driver takes its time, the CPU does not";
  }
}

TEST_F(GraphTest, ACallTakesOtherMemory) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({7, 30}, device), y = random_tensor({7, 30}, device);
    add(x, y, stream);
    dispatch_gpu_op("neg", {x}, {}, {.stream = stream.get()});
    std::optional<Tensor> sum, result;
    Graph graph = capture(stream, [&] {
      sum = add(x, y, stream);
      result = dispatch_gpu_op("neg", {*sum}, {}, {.stream = stream.get()});
    });
    const auto expected = [&](const Tensor& a, const Tensor& b) {
      return read(dispatch_gpu_op("neg", {add(a, b, stream)}, {}, {.stream = stream.get()}), stream);
    };
    EXPECT_EQ(replay(graph, *result, stream), expected(x, y));
    const Tensor other = random_tensor({7, 30}, device), elsewhere = random_tensor({7, 30}, device);
    graph.update(0, std::vector<TensorView>{other, y}, std::vector<TensorView>{*sum});
    EXPECT_EQ(graph.call(0).inputs[0].data, other.data());
    EXPECT_EQ(replay(graph, *result, stream), expected(other, y)) << to_string(device);
    graph.update(1, std::vector<TensorView>{*sum}, std::vector<TensorView>{elsewhere});
    poison(*result, stream);
    const std::vector<float> poisoned = read(*result, stream);
    EXPECT_EQ(replay(graph, elsewhere, stream), expected(other, y)) << to_string(device);
    EXPECT_EQ(std::memcmp(read(*result, stream).data(), poisoned.data(), poisoned.size() * 4), 0);

    const auto refused = [&](std::size_t call, std::vector<TensorView> inputs, std::vector<TensorView> outputs) {
      return message_of(Kind::value, [&] { graph.update(call, inputs, outputs); });
    };
    EXPECT_THAT(refused(0, {random_tensor({30, 7}, device), y}, {*sum}),
                AllOf(HasSubstr("call 0"), HasSubstr("'add' was recorded for input"), HasSubstr("(30, 7)")));
    EXPECT_THAT(refused(0, {x}, {*sum}), HasSubstr("2 inputs and 1 outputs, got 1 and 1"));
    TensorView half = x.view();
    half.dtype = DType::f16;
    EXPECT_THAT(refused(0, {half, y}, {*sum}), HasSubstr("f16"));
    TensorView nowhere = x.view();
    nowhere.data = nullptr;
    EXPECT_THAT(refused(0, {nowhere, y}, {*sum}), HasSubstr("null"));
    EXPECT_THAT(refused(2, {x, y}, {*sum}), HasSubstr("holds 2 calls"));
    EXPECT_EQ(replay(graph, elsewhere, stream), expected(other, y)) << "a refused update changed the graph";
  }
}

TEST_F(GraphTest, TakesAnotherBodyOfTheSameKernels) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    std::optional<Tensor> result;
    const auto body_over = [&](const Tensor& x, const Tensor& y) {
      return [&result, x, y, &stream] { result = add(add(x, y, stream), y, stream); };
    };
    const auto expected = [&](const Tensor& x, const Tensor& y) {
      return read(add(add(x, y, stream), y, stream), stream);
    };
    const Tensor x = random_tensor({500}, device), y = random_tensor({500}, device);
    const Tensor long_x = random_tensor({3000}, device), long_y = random_tensor({3000}, device);
    add(x, y, stream);
    Graph graph = capture(stream, body_over(x, y));
    EXPECT_EQ(replay(graph, *result, stream), expected(x, y));
    graph.update(stream, body_over(y, x));
    EXPECT_EQ(replay(graph, *result, stream), expected(y, x)) << to_string(device);
    graph.update(stream, body_over(long_x, long_y));  // needs another plan, but no kernel that is not loaded
    EXPECT_EQ(replay(graph, *result, stream), expected(long_x, long_y)) << to_string(device);
    const Tensor again = random_tensor({3000}, device);
    graph.update(0, std::vector<TensorView>{again, long_y}, graph.call(0).outputs);
    EXPECT_EQ(replay(graph, *result, stream), expected(again, long_y)) << to_string(device);

    const Tensor held = *result;
    const auto refused = [&](const std::function<void()>& body) {
      return message_of(Kind::value, [&] { graph.update(stream, body); });
    };
    dispatch_gpu_op("sub", {x, y}, {}, {.stream = stream.get()});
    EXPECT_THAT(refused([&] {
                  add(x, y, stream);
                  dispatch_gpu_op("sub", {x, y}, {}, {.stream = stream.get()});
                }),
                AllOf(HasSubstr("call 1 is sub(f32 (500)"), HasSubstr("where it was add(")));
    EXPECT_THAT(refused([&] { add(x, y, stream); }), HasSubstr("1 calls where there were 2"));
    EXPECT_THAT(refused([&] { dispatch_gpu_op("bernoulli", {}, {}, {.stream = stream.get()}); }),
                HasSubstr("bernoulli"))
        << "the body's own mistake";
    EXPECT_THROW(graph.update(stream, [] { throw std::runtime_error("stop"); }), std::runtime_error);
    EXPECT_FALSE(is_capturing(stream));
    EXPECT_EQ(replay(graph, held, stream), expected(again, long_y)) << "a refused update changed the graph";
  }
}

TEST_F(GraphTest, TakesOtherNumbers) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({500}, device), y = random_tensor({500}, device);
    std::optional<Tensor> result;
    const auto scaled = [&](double alpha) {
      result = dispatch_gpu_op("add", {x, y}, {{"alpha", alpha}}, {.stream = stream.get()});
    };
    for (const double alpha : {1.0, 2.0}) scaled(alpha);
    Graph graph = capture(stream, [&] { scaled(2.0); });
    for (const double alpha : {3.0, -0.5}) {
      graph.update(stream, [&] { scaled(alpha); });
      const std::vector<float> replayed = replay(graph, *result, stream);
      scaled(alpha);
      EXPECT_EQ(replayed, read(*result, stream)) << alpha << " on " << to_string(device);
    }
    EXPECT_THAT(message_of(Kind::value, [&] { graph.update(stream, [&] { scaled(1.0); }); }),
                AllOf(HasSubstr("call 0"), HasSubstr("other kernels")));
  }
}

TEST_F(GraphTest, AColdCallIsRefusedUntilItIsWarm) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({321}, device), y = random_tensor({321}, device);
    add(x, y, stream);
    std::optional<Tensor> result;
    const std::string cube = register_cube();
    const auto cold = [&] { result = dispatch_gpu_op(cube, {*result}, {}, {.stream = stream.get()}); };
    const Graph partial = capture(stream, [&] {
      result = add(x, y, stream);
      EXPECT_THAT(message_of(Kind::value, cold),
                  AllOf(HasSubstr("'" + cube + "'"), HasSubstr("kiln::warm_up"), HasSubstr("captured")));
    });
    EXPECT_EQ(partial.num_calls(), 1u);
    EXPECT_EQ(replay(partial, *result, stream), read(add(x, y, stream), stream)) << to_string(device);
    EXPECT_THAT(message_of(Kind::value, [&] { capture(stream, cold); }), HasSubstr("kiln::warm_up"));
    synchronize(stream);

    const std::vector<WarmUpCall> calls = {{cube, {x.view()}}, {"add", {x.view(), y.view()}}};
    warm_up(calls);
    const Graph graph = capture(stream, [&] {
      result = add(x, y, stream);
      cold();
    });
    std::vector<float> expected = read(add(x, y, stream), stream);
    for (float& value : expected) value = value * value * value;
    EXPECT_EQ(replay(graph, *result, stream), expected) << to_string(device);
  }
}

TEST_F(GraphTest, NothingIsTunedWhileItIsRecorded) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const std::string cube = register_cube();
    const Tensor x = random_tensor({99}, device);
    const DispatchOptions tuned{.stream = stream.get(), .tuning = TuningPolicy::first_use};
    EXPECT_THAT(message_of(Kind::value, [&] { capture(stream, [&] { dispatch_gpu_op(cube, {x}, {}, tuned); }); }),
                HasSubstr("kiln::warm_up"));
    const std::vector<WarmUpCall> calls = {{cube, {x.view()}}};
    warm_up(calls);
    EXPECT_EQ(capture(stream, [&] { dispatch_gpu_op(cube, {x}, {}, tuned); }).num_calls(), 1u) << to_string(device);
  }
}

TEST_F(GraphTest, WarmUpSaysWhichCallFailed) {
  for (const Device device : devices_) {
    const Tensor x = random_tensor({77}, device);
    const std::string cube = register_cube();
    const std::vector<WarmUpCall> calls = {
        {"add", {x.view(), x.view()}}, {cube, {}}, {"no_such_op", {x.view()}}, {"neg", {x.view()}}};
    EXPECT_THAT(message_of(Kind::value, [&] { warm_up(calls, 2); }),
                AllOf(HasSubstr("call 1 (op '" + cube + "')"), HasSubstr("input")));
    EXPECT_THAT(message_of(Kind::value, [&] { warm_up(std::span(calls).subspan(2)); }), HasSubstr("no_such_op"));
    EXPECT_THAT(message_of(Kind::value, [&] { warm_up(calls, -1); }), HasSubstr("num_threads=-1"));
    const OwnedStream stream(device);  // the good one behind the bad ones was warmed up all the same
    EXPECT_EQ(capture(stream, [&] { dispatch_gpu_op("neg", {x}, {}, {.stream = stream.get()}); }).num_calls(), 1u);
  }
  warm_up({});
}

TEST_F(GraphTest, AnExceptionEndsTheRecordingAndNothingElse) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({50}, device);
    const std::vector<float> expected = read(add(x, x, stream), stream);
    std::optional<Tensor> survivor;
    EXPECT_THROW(capture(stream,
                         [&] {
                           survivor = add(x, x, stream);
                           throw std::runtime_error("stop");
                         }),
                 std::runtime_error);
    EXPECT_FALSE(is_capturing(stream));
    EXPECT_EQ(read(add(x, x, stream), stream), expected);
    memset_bytes(*survivor, 0, stream);  // its memory is good, if of no graph any more
    EXPECT_THAT(read(*survivor, stream), Each(0.0F));
    const Graph graph = capture(stream, [&] { survivor = add(x, x, stream); });
    EXPECT_EQ(replay(graph, *survivor, stream), expected) << to_string(device);
  }
}

TEST_F(GraphTest, RefusesWhatNoGraphCanHold) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({50}, device), index = make_integers(DType::i64, {2}, {0, 3}, device);
    const std::vector<float> expected = read(add(x, x, stream), stream);
    Event event(device);
    event.record(stream);
    event.synchronize();
    std::optional<Tensor> result;
    const Graph graph = capture(stream, [&] {
      const auto refused = [&](const std::function<void()>& call) { return message_of(Kind::value, call); };
      EXPECT_THAT(refused([&] { synchronize(stream); }), HasSubstr("captured"));
      EXPECT_THAT(refused([&] { to_device(x, Device::cpu()); }), HasSubstr("to_device"));
      EXPECT_THAT(refused([&] { tune_op("add", std::vector<TensorView>{x, x}, {}, {.stream = stream.get()}); }),
                  HasSubstr("'add' cannot be tuned"));
      EXPECT_TRUE(event.is_done());
      event.record(stream);
      EXPECT_THAT(refused([&] { event.synchronize(); }), HasSubstr("a place in the graph"));
      EXPECT_THAT(refused([&] { event.is_done(); }), HasSubstr("a place in the graph"));
      EXPECT_THAT(refused([&] { capture(stream, [] {}); }), HasSubstr("captured already"));
      if (device.is_cuda()) {
        EXPECT_THAT(refused([&] { dispatch_gpu_op("add", {x, x}); }),
                    AllOf(HasSubstr("'add'"), HasSubstr("default stream")));
        EXPECT_THAT(refused([&] { copy(x, make_f32(std::vector<float>(50, 1)), stream); }), HasSubstr("page-locked"));
      }
      result = add(x, x, stream);  // the recording is as good as ever
    });
    EXPECT_EQ(graph.num_calls(), 1u);
    EXPECT_EQ(replay(graph, *result, stream), expected) << to_string(device);
    event.record(stream);
    event.synchronize();
    EXPECT_TRUE(event.is_done());
  }
}

TEST_F(GraphTest, ChecksOfDataAreRefused) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({6, 2}, device), index = make_integers(DType::i64, {1, 2}, {0, 3}, device);
    const Tensor rows = random_tensor({6, 2}, device);
    const Tensor pairs = make_integers(DType::i32, {1, 1, 2}, {2, 4}, device);
    const std::vector<Tensor> inputs = {rows, x, pairs};
    const Attributes checked{{"check_bounds", true}};
    dispatch_gpu_op("sparse_kv_gather", inputs, checked, {.stream = stream.get()});
    synchronize(stream);
    EXPECT_THAT(message_of(Kind::value,
                           [&] {
                             capture(stream, [&] {
                               dispatch_gpu_op("sparse_kv_gather", inputs, checked, {.stream = stream.get()});
                             });
                           }),
                AllOf(HasSubstr("'sparse_kv_gather'"), HasSubstr("without the check")));
    EXPECT_FALSE(is_capturing(stream));
  }
}

TEST_F(GraphTest, AGraphThatWasMovedFromSaysSo) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({50}, device);
    const std::vector<float> expected = read(add(x, x, stream), stream);
    std::optional<Tensor> result;
    Graph graph = capture(stream, [&] { result = add(x, x, stream); });
    Graph moved = std::move(graph);
    // NOLINTBEGIN(bugprone-use-after-move)
    for (const std::function<void()>& use : std::vector<std::function<void()>>{
             [&] { graph.launch(stream); }, [&] { graph.num_calls(); }, [&] { graph.call(0); },
             [&] { graph.update(stream, [] {}); }, [&] { graph.update(0, {}, {}); }, [&] { graph.device(); }})
      EXPECT_THAT(message_of(Kind::value, use), HasSubstr("moved from"));
    // NOLINTEND(bugprone-use-after-move)
    EXPECT_EQ(replay(moved, *result, stream), expected);
    EXPECT_THAT(message_of(Kind::value, [&] { moved.call(1); }), HasSubstr("holds 1 calls"));
    graph = std::move(moved);
    EXPECT_EQ(replay(graph, *result, stream), expected);
  }
}

TEST_F(GraphTest, AStreamOfAnotherDeviceIsRefused) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({50}, device);
    add(x, x, stream);
    Graph graph = capture(stream, [&] { add(x, x, stream); });
    const Stream other = Stream::default_of(device.is_cuda() ? Device::cpu() : Device::cuda(0));
    EXPECT_THAT(message_of(Kind::value, [&] { graph.launch(other); }),
                AllOf(HasSubstr(to_string(device)), HasSubstr(to_string(other.device))));
    EXPECT_THAT(message_of(Kind::value, [&] { graph.update(other, [] {}); }), HasSubstr(to_string(other.device)));
    graph.launch(stream);
    synchronize(stream);
  }
}

TEST_F(GraphTest, LaunchesOfGraphsAreRecorded) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({50}, device), one = make_f32(std::vector<float>(50, 1), device);
    add(x, one, stream);
    std::optional<Tensor> inner_result, result;
    std::optional<Graph> inner = capture(stream, [&] { inner_result = add(x, one, stream); });
    Graph outer = capture(stream, [&] {
      inner->launch(stream);
      result = add(*inner_result, one, stream);
    });
    ASSERT_EQ(outer.num_calls(), 2u);
    EXPECT_EQ(outer.call(0).op, "graph");
    EXPECT_EQ(message_of(Kind::not_implemented, [&] { outer.update(0, {}, {}); }).find("call 0"), 0u);
    inner.reset();  // the outer one holds what it needs of it
    inner_result.reset();
    refill(x, stream);
    EXPECT_EQ(replay(outer, *result, stream), read(add(add(x, one, stream), one, stream), stream)) << to_string(device);
  }
}

TEST_F(GraphTest, ForkedStreamsBelongToTheRecording) {
  for (const Device device : devices_) {
    const OwnedStream stream(device), side(device);
    const Tensor x = random_tensor({50}, device), one = make_f32(std::vector<float>(50, 1), device);
    add(x, one, stream);
    std::optional<Tensor> left, right, result;
    const Graph graph = capture(stream, [&] {
      Event fork(device), join(device);
      fork.record(stream);
      fork.wait(side);
      EXPECT_TRUE(is_capturing(side));
      left = add(x, one, stream);
      right = add(x, x, side);
      join.record(side);
      join.wait(stream);
      result = add(*left, *right, stream);
    });
    EXPECT_EQ(graph.num_calls(), 3u);
    refill(x, stream);
    EXPECT_EQ(replay(graph, *result, stream), read(add(add(x, one, stream), add(x, x, stream), stream), stream))
        << to_string(device);
    synchronize(side);
  }
}

TEST_F(GraphTest, RecordingsOfThreadsAreTheirOwn) {
  constexpr int kThreads = 4, kRounds = 25;
  for (const Device device : devices_) {
    const OwnedStream first(device);
    const Tensor warm = random_tensor({64}, device);
    add(warm, warm, first);
    synchronize(first);
    std::barrier start(kThreads + 1);
    std::atomic<int> wrong = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        const OwnedStream stream(device);
        const std::vector<float> values(64, static_cast<float>(t + 1));
        const Tensor x = make_f32(values, device);
        start.arrive_and_wait();
        for (int round = 0; round < kRounds; ++round) {
          std::optional<Tensor> result;
          const Graph graph = capture(stream, [&] {
            result = x;
            for (int i = 0; i <= t; ++i) result = add(*result, x, stream);
          });
          if (graph.num_calls() != static_cast<std::size_t>(t + 1)) ++wrong;
          graph.launch(stream);
          synchronize(stream);
          const std::vector<float> got = read_f32(*result);
          if (got != std::vector<float>(64, static_cast<float>((t + 1) * (t + 2)))) ++wrong;
        }
      });
    start.arrive_and_wait();
    for (int i = 0; i < kRounds; ++i)  // calls that nobody records run
      if (read(add(warm, warm, first), first).size() != 64) ++wrong;
    threads.clear();
    EXPECT_EQ(wrong, 0) << to_string(device);
  }
}

TEST_F(GraphTest, PlansOfSeveralKernelsKeepTheirWorkspace) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({3, 700'000}, device), other = random_tensor({3, 700'000}, device);
    const auto total = [&](const Tensor& of) { return dispatch_gpu_op("sum", {of}, {}, {.stream = stream.get()}); };
    total(x);
    EXPECT_GE(resolve("sum", {x.view()}).report().kernels.size(), 2u) << "a smaller sum would do";
    std::optional<Tensor> a, b;
    Graph graph = capture(stream, [&] {
      a = total(x);
      b = total(other);
    });
    for (int round = 0; round < 2; ++round) {
      refill(x, stream);
      EXPECT_EQ(replay(graph, *a, stream), read(total(x), stream)) << to_string(device);
      EXPECT_EQ(read(*b, stream), read(total(other), stream)) << to_string(device);
    }
    graph.update(0, std::vector<TensorView>{other}, std::vector<TensorView>{*a});
    EXPECT_EQ(replay(graph, *a, stream), read(total(other), stream)) << to_string(device);
  }
}

TEST_F(GraphTest, HoldsOpsOfAllKinds) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const DispatchOptions on{.stream = stream.get()};
    const Tensor x = random_tensor({4, 2, 8}, device);
    const Tensor keys = make_f32({2, 4, 2, 8}, std::vector<float>(128, 0), device);
    const Tensor values = make_f32({2, 4, 2, 8}, std::vector<float>(128, 0), device);
    const Tensor slots = make_integers(DType::i64, {4}, {7, 0, -1, 3}, device);
    const Tensor rows = make_f32({4, 2, 8}, std::vector<float>(64, 0), device);
    const Tensor pairs = make_integers(DType::i32, {1, 2, 2}, {1, 0, 3, 2}, device);
    const Tensor slot_map = make_integers(DType::i32, {4}, {-1, -1, -1, -1}, device);
    const Tensor nothing = empty({0, 3}, DType::f32, device);
    const std::string cube = register_cube();
    std::optional<Tensor> dropped, none, cubes;
    const auto body = [&] {
      dropped = dispatch_gpu_op("dropout", {x}, {{"p", 0.25}, {"seed", std::int64_t{7}}}, on);
      dispatch_gpu_op("kv_append", {x, *dropped, keys, values, slots}, {}, on);
      dispatch_gpu_op("sparse_kv_gather", {rows, x, pairs, Tensor{}, slot_map}, {}, on);
      none = add(nothing, nothing, stream);
      cubes = dispatch_gpu_op(cube, {x}, {}, on);
    };
    const auto state = [&] {
      synchronize(stream);
      return std::vector{read_bits(*dropped), read_bits(keys),     read_bits(values),
                         read_bits(rows),     read_bits(slot_map), read_bits(*cubes)};
    };
    const auto clear = [&] {
      for (const Tensor& tensor : {keys, values, rows, slot_map}) memset_bytes(tensor, 0, stream);
    };
    body();
    const Graph graph = capture(stream, body);
    EXPECT_EQ(graph.num_calls(), 5u);
    for (int round = 0; round < 2; ++round) {
      refill(x, stream);
      clear();
      graph.launch(stream);
      const auto replayed = state();
      const Tensor recorded_dropped = *dropped, recorded_cubes = *cubes;
      clear();
      body();
      EXPECT_EQ(replayed, state()) << to_string(device);
      dropped = recorded_dropped;
      cubes = recorded_cubes;
    }
  }
}

TEST_F(GraphTest, ResolvedOpsAreRecordedToo) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor x = random_tensor({90}, device), y = random_tensor({90}, device), out = random_tensor({90}, device);
    const ResolvedOp op = resolve("add", {x.view(), y.view()});
    const Graph graph = capture(stream, [&] { op({x, y}, {out}, stream); });
    refill(x, stream);
    EXPECT_EQ(replay(graph, out, stream), read(add(x, y, stream), stream)) << to_string(device);
  }
}

TEST_F(GraphTest, AnEmptyBodyIsAGraph) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Graph graph = capture(stream, [] {});
    EXPECT_EQ(graph.num_calls(), 0u);
    EXPECT_EQ(graph.memory_bytes(), 0);
    graph.launch(stream);
    synchronize(stream);
  }
}

}  // namespace
}  // namespace kiln
