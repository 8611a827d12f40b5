// A program outside the tree: dispatches a built-in op and one it registers itself, and checks both results.
#include <cstdio>
#include <kiln/kiln.hpp>
// Paths of earlier versions, one of them for what is in two headers today.
#include <kiln/registry/dispatch.hpp>
#include <kiln/registry/registry.hpp>

#include "core/tensor.hpp"

namespace {

constexpr const char* kDoublePlusOne = R"(
#include <kiln/tl.hpp>

namespace user {
namespace tl = kiln::tl;

template <typename T, int BLOCK_SIZE>
KILN_KERNEL void double_plus_one(const T* x, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto value = tl::load(x + offsets, mask);
  tl::store(out + offsets, value + value + T(1), mask);
}
}  // namespace user
)";

kiln::Tensor ramp(std::int64_t size, float step) {
  kiln::Tensor tensor = kiln::empty({size}, kiln::DType::f32, kiln::Device::cpu());
  for (std::int64_t i = 0; i < size; ++i) tensor.data_as<float>()[i] = step * static_cast<float>(i);
  return tensor;
}

int count_wrong(const kiln::Tensor& tensor, float step, float offset) {
  int wrong = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    wrong += tensor.data_as<float>()[i] != step * static_cast<float>(i) + offset;
  return wrong;
}

}  // namespace

int main() {
  const kiln::Tensor x = ramp(10'001, 1.0f), y = ramp(10'001, 2.0f);
  int wrong = count_wrong(kiln::dispatch_gpu_op("add", {x, y}), 3.0f, 0.0f);

  kiln::register_elementwise_kernel(
      {.name = "double_plus_one",
       .doc = "2 * x + 1",
       .source = {.path = "user/double_plus_one.hpp", .text = kDoublePlusOne, .headers = {}},
       .kernel = "user::double_plus_one"});
  wrong += count_wrong(kiln::dispatch_gpu_op("double_plus_one", {x}), 2.0f, 1.0f);

  bool refused = false;
  try {
    kiln::dispatch_gpu_op("ad", {x, y});
  } catch (const kiln::UsageError&) {  // thrown across the shared library's boundary
    refused = true;
  }
  std::printf("%d wrong elements, unknown op refused: %s\n", wrong, refused ? "yes" : "no");
  return wrong == 0 && refused && users_own_tensor() == 1 ? 0 : 1;
}
