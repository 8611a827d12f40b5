#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/user_ops/user_op.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {

/// On every device there is: a graph means the same everywhere.
class GraphTest : public DevicesTest {
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
inline std::string register_cube() {
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

}  // namespace kiln::test
