#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "runtime/event.hpp"
#include "runtime/graph.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/graph_test.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using Kind = UsageError::Kind;

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
    EXPECT_THAT(to_string(graph.call(2)), Says("linear_relu(f32 (5, 48)", "-> f32 (5, 33)", "[variant "));
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

TEST_F(GraphTest, OutlivesTheStreamsOfWhatItHolds) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor one = make_f32(std::vector<float>(64, 1), device);
    add(one, one, stream);
    std::optional<Tensor> result;
    // Both ways that holdings go: with the graph, and with an update by a body.
    for (const bool is_updated : {false, true}) {
      std::optional<OwnedStream> early(std::in_place, device);
      std::optional<Tensor> x = empty({64}, DType::f32, early->get());
      memset_bytes(*x, 0, early->get());
      synchronize(early->get());
      std::optional<Graph> graph = capture(stream, [&] { result = add(*x, one, stream); });
      EXPECT_THAT(replay(*graph, *result, stream), Each(1.0F)) << to_string(device);
      x.reset();
      early.reset();
      if (is_updated) {
        graph->update(stream, [&] { result = add(one, one, stream); });
        EXPECT_THAT(replay(*graph, *result, stream), Each(2.0F)) << to_string(device);
      }
      graph.reset();
      synchronize(stream);
      const Tensor afterwards = empty({64}, DType::f32, stream);  // drops what the driver has released by now
      memset_bytes(afterwards, 0, stream);
      EXPECT_THAT(read(afterwards, stream), Each(0.0F)) << to_string(device);
    }
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
    EXPECT_EQ(usage_message(Kind::not_implemented, [&] { outer.update(0, {}, {}); }).find("call 0"), 0u);
    const Tensor other = random_tensor({50}, device);
    inner->update(0, std::vector<TensorView>{other, one}, inner->call(0).outputs);
    std::optional<Tensor> later_result;
    const Graph later = capture(stream, [&] {
      inner->launch(stream);
      later_result = add(*inner_result, one, stream);
    });
    EXPECT_EQ(replay(later, *later_result, stream), read(add(add(other, one, stream), one, stream), stream))
        << "a launch is recorded as the graph is then, " << to_string(device);
    inner.reset();  // the outer ones hold what they need of it
    inner_result.reset();
    refill(x, stream);
    EXPECT_EQ(replay(outer, *result, stream), read(add(add(x, one, stream), one, stream), stream)) << to_string(device);
  }
}

TEST_F(GraphTest, MemoryOfOtherStreamsMayComeAndGoMeanwhile) {
  for (const Device device : devices_) {
    const OwnedStream stream(device), outside(device);
    const Tensor x = random_tensor({50}, device);
    const std::vector<float> expected = read(add(x, x, stream), stream);
    std::optional<Tensor> dropped = empty({1 << 20}, DType::u8, outside), made, result;
    const Graph graph = capture(stream, [&] {
      made = empty({64}, DType::u8, outside);
      dropped.reset();
      result = add(x, x, stream);
    });
    EXPECT_EQ(replay(graph, *result, stream), expected) << to_string(device);
    memset_bytes(*made, 7, outside);
    synchronize(outside);
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

TEST_F(GraphTest, ThreadsMayShareACapturedStream) {
  constexpr int kThreads = 4, kCalls = 50;
  for (const Device device : devices_) {
    if (!device.is_cuda()) continue;  // on the CPU a recording is one thread's
    const OwnedStream stream(device);
    const Tensor x = random_tensor({64}, device), other = random_tensor({64}, device);
    std::vector<Tensor> results;
    for (int i = 0; i < kThreads; ++i) results.push_back(empty({64}, DType::f32, stream));
    const ResolvedOp op = resolve("add", {x.view(), x.view()});
    Graph graph = capture(stream, [&] {
      std::vector<std::jthread> threads;
      for (const Tensor& result : results)
        threads.emplace_back([&op, &x, &stream, &result] {
          for (int i = 0; i < kCalls; ++i) {
            memset_bytes(result, 0, stream);
            op({x, x}, {result}, stream);
          }
        });
    });
    ASSERT_EQ(graph.num_calls(), 2u * kThreads * kCalls);
    for (const Tensor& result : results) EXPECT_EQ(replay(graph, result, stream), read(add(x, x, stream), stream));
    // Each call knows its own node, and the list is in the order of the stream.
    for (std::size_t i = 0; i < graph.num_calls(); ++i)
      if (const GraphCall call = graph.call(i); call.op == "add")
        graph.update(i, std::vector<TensorView>{other, other}, call.outputs);
    for (const Tensor& result : results)
      EXPECT_EQ(replay(graph, result, stream), read(add(other, other, stream), stream));
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
}  // namespace kiln::test
