#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "runtime/graph.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/graph_test.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using Kind = UsageError::Kind;

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
      return usage_message(Kind::value, [&] { graph.update(call, inputs, outputs); });
    };
    EXPECT_THAT(refused(0, {random_tensor({30, 7}, device), y}, {*sum}),
                Says("call 0", "'add' was recorded for input", "(30, 7)"));
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
      return usage_message(Kind::value, [&] { graph.update(stream, body); });
    };
    dispatch_gpu_op("sub", {x, y}, {}, {.stream = stream.get()});
    EXPECT_THAT(refused([&] {
                  add(x, y, stream);
                  dispatch_gpu_op("sub", {x, y}, {}, {.stream = stream.get()});
                }),
                Says("call 1 is sub(f32 (500)", "where it was add("));
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
    EXPECT_THAT(usage_message(Kind::value, [&] { graph.update(stream, [&] { scaled(1.0); }); }),
                Says("call 0", "other kernels"));
  }
}

}  // namespace
}  // namespace kiln::test
