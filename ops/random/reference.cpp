#include "ops/random/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "ops/common/element.hpp"
#include "ops/random/launch.hpp"

namespace kiln::random {
namespace {

using Words = std::array<std::uint32_t, 4>;

/// Philox-4x32-10 (Salmon et al., SC 2011), round by round.
Words philox(std::uint64_t seed, std::uint64_t counter) {
  Words c = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto low_key = static_cast<std::uint32_t>(seed), high_key = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xd2511f53} * c[0], p1 = std::uint64_t{0xcd9e8d57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ low_key, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ high_key, static_cast<std::uint32_t>(p0)};
    low_key += 0x9e3779b9;
    high_key += 0xbb67ae85;
  }
  return c;
}

std::uint64_t wide(const Words& words, std::size_t k) {
  return std::uint64_t{words[2 * k + 1]} << 32 | words[2 * k];
}

std::uint32_t folded(std::uint32_t word) {
  return word < 0x80000000 ? word : ~word;
}

double uniform(const Draw& draw, const Words& words, std::size_t k) {
  if (draw.compute == DType::f64) return static_cast<double>(wide(words, k) >> 11) * 0x1p-53;
  return static_cast<float>(folded(words[k])) * 4.6566127342e-10F;
}

double normal(const Draw& draw, const Words& words, std::size_t k) {
  double u1 = 0, turns = 0;
  if (draw.compute == DType::f64) {
    u1 = static_cast<double>((wide(words, 0) >> 11) + 1) * 0x1p-53;
    turns = static_cast<double>(wide(words, 1)) * 0x1p-64;
  } else {
    u1 = std::max(uniform(draw, words, k & 2), static_cast<double>(1e-7F));
    turns = folded(words[k | 1]) * 0x1p-31;
  }
  const double angle = 2 * std::numbers::pi * turns;
  return std::sqrt(-2 * std::log(u1)) * (k % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

/// low + floor(word * range / 2^bits), the product in halves.
std::uint64_t integer(const Draw& draw, const Words& words, std::size_t k) {
  const std::uint64_t low = draw.parameters.bits[0], range = draw.parameters.bits[1];
  if (draw.elements_per_block == 4) return low + ((words[k] * range) >> 32);
  const std::uint64_t upper = words[2 * k + 1], lower = words[2 * k];
  const std::uint64_t range_upper = range >> 32, range_lower = range & 0xffffffff;
  const std::uint64_t middle = upper * range_lower + ((lower * range_lower) >> 32);
  return low + upper * range_upper + (middle >> 32) + (((middle & 0xffffffff) + lower * range_upper) >> 32);
}

std::byte* address_of(const TensorView& view, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = view.ndim() - 1; axis >= 0; --axis) {
    offset += index % view.shape[axis] * view.strides[axis];
    index /= view.shape[axis];
  }
  return common::address_at(view, offset);
}

}  // namespace

void run_reference(Kind kind, const OpCall& call) {
  const Draw draw = draw_of(kind, call);
  const TensorView& output = call.outputs[0];
  const DType dtype = output.dtype;
  const double* const f64 = draw.parameters.f64;
  const float* const f32 = draw.parameters.f32;
  const std::int64_t numel = output.numel();
  Words words{};
  for (std::int64_t i = 0; i < numel; ++i) {
    const auto k = static_cast<std::size_t>(i % draw.elements_per_block);
    if (k == 0) words = philox(draw.seed, draw.offset + static_cast<std::uint64_t>(i / draw.elements_per_block));
    std::byte* const out = address_of(output, i);
    double value = 0;
    switch (kind) {
      case Kind::uniform:
        value = uniform(draw, words, k);
        value = draw.compute == DType::f64 ? std::fma(value, f64[1], f64[0])
                                           : std::fma(static_cast<float>(value), f32[1], f32[0]);
        break;
      case Kind::normal:
        value = normal(draw, words, k) * f64[1] + f64[0];
        if (draw.compute == DType::f32) value = static_cast<float>(value);
        break;
      case Kind::randint:
        common::store_element<std::uint64_t>(out, dtype, integer(draw, words, k));
        continue;
      case Kind::bernoulli:
        value = words[k] < draw.parameters.bits[0] ? 1 : 0;
        break;
      case Kind::dropout: {
        if (words[k] < draw.parameters.bits[0]) break;
        const double x = common::load_element<double>(address_of(call.inputs[0], i), dtype);
        value = draw.compute == DType::f64 ? x * f64[0] : static_cast<float>(x) * f32[0];
        break;
      }
    }
    common::store_element<double>(out, dtype, value);
  }
}

}  // namespace kiln::random
