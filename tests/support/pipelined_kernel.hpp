#pragma once

#include <cstdint>

namespace kiln::test {

/// out [32, 32] = the sum of the squares of n matrices x [n, 32, 32], by tl::pipeline.
inline constexpr const char* kProducts = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
KILN_DEVICE auto tile() { return tl::expand_dims<1>(tl::arange<32>()) * 32 + tl::expand_dims<0>(tl::arange<32>()); }
template <typename T, int NUM_STAGES>
KILN_KERNEL void products(const T* x, T* out, tl::int64_t n) {
  auto acc = tl::dot_accumulator<T, 32, 32>();
  const auto load = [&](tl::int64_t step) { return tl::deferred_load(x + step * 1024 + tile()); };
  tl::pipeline<NUM_STAGES>(
      n, [&](tl::int64_t step) { return tl::Tuple{load(step), load(step)}; },
      [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); });
  tl::store(out + tile(), acc);
}
)";

/// What tl::pipeline needs in kProducts: two tiles of 32 x 32 floats for each stage.
inline constexpr std::int32_t kProductsBytes = 2 * 2 * 32 * 32 * 4;

}  // namespace kiln::test
