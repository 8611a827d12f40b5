#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/dispatch/warm_up.hpp"
#include "registry/tuning/tuning.hpp"
#include "runtime/event.hpp"
#include "runtime/graph.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/graph_test.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using Kind = UsageError::Kind;

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
      EXPECT_THAT(usage_message(Kind::value, cold), Says("'" + cube + "'", "kiln::warm_up", "captured"));
    });
    EXPECT_EQ(partial.num_calls(), 1u);
    EXPECT_EQ(replay(partial, *result, stream), read(add(x, y, stream), stream)) << to_string(device);
    EXPECT_THAT(usage_message(Kind::value, [&] { capture(stream, cold); }), HasSubstr("kiln::warm_up"));
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
    EXPECT_THAT(usage_message(Kind::value, [&] { capture(stream, [&] { dispatch_gpu_op(cube, {x}, {}, tuned); }); }),
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
    EXPECT_THAT(usage_message(Kind::value, [&] { warm_up(calls, 2); }), Says("call 1 (op '" + cube + "')", "input"));
    EXPECT_THAT(usage_message(Kind::value, [&] { warm_up(std::span(calls).subspan(2)); }), HasSubstr("no_such_op"));
    EXPECT_THAT(usage_message(Kind::value, [&] { warm_up(calls, -1); }), HasSubstr("num_threads=-1"));
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
      const auto refused = [&](const std::function<void()>& call) { return usage_message(Kind::value, call); };
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
        EXPECT_THAT(refused([&] { dispatch_gpu_op("add", {x, x}); }), Says("'add'", "default stream"));
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
    EXPECT_THAT(usage_message(Kind::value,
                              [&] {
                                capture(stream, [&] {
                                  dispatch_gpu_op("sparse_kv_gather", inputs, checked, {.stream = stream.get()});
                                });
                              }),
                Says("'sparse_kv_gather'", "without the check"));
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
      EXPECT_THAT(usage_message(Kind::value, use), HasSubstr("moved from"));
    // NOLINTEND(bugprone-use-after-move)
    EXPECT_EQ(replay(moved, *result, stream), expected);
    EXPECT_THAT(usage_message(Kind::value, [&] { moved.call(1); }), HasSubstr("holds 1 calls"));
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
    EXPECT_THAT(usage_message(Kind::value, [&] { graph.launch(other); }),
                Says(to_string(device), to_string(other.device)));
    EXPECT_THAT(usage_message(Kind::value, [&] { graph.update(other, [] {}); }), HasSubstr(to_string(other.device)));
    graph.launch(stream);
    synchronize(stream);
  }
}

}  // namespace
}  // namespace kiln::test
