#include "registry/inspection/random_input.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/errors.hpp"
#include "core/float_formats.hpp"

namespace kiln {
namespace {

/// SplitMix64's output function (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
std::uint64_t mix(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

/// Uniform in [0, 1), from the upper 53 bits.
double unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

template <typename T, typename Make>
void fill(const TensorView& tensor, std::uint64_t key, Make make) {
  T* const data = static_cast<T*>(tensor.data);
  const std::int64_t n = tensor.numel();
  for (std::int64_t i = 0; i < n; ++i) data[i] = make(mix(key + static_cast<std::uint64_t>(i) * kGolden));
}

template <typename T>
void fill_integers(const TensorView& tensor, InputRange range, std::uint64_t key) {
  using Limits = std::numeric_limits<T>;
  // As long double both bounds of every 64-bit type are exact.
  const auto clip = [](double value) {
    return static_cast<T>(std::clamp<long double>(value, static_cast<long double>(Limits::min()),
                                                  static_cast<long double>(Limits::max())));
  };
  const T low = clip(std::ceil(range.low));
  const T high = std::max(low, clip(std::floor(range.high)));
  const auto span = static_cast<long double>(high) - static_cast<long double>(low) + 1;
  fill<T>(tensor, key, [=](std::uint64_t bits) {
    const auto step = static_cast<std::uint64_t>(unit(bits) * static_cast<double>(span));
    return std::min<T>(high, static_cast<T>(static_cast<std::uint64_t>(low) + step));
  });
}

}  // namespace

void fill_random(const TensorView& tensor, InputRange range, std::uint64_t seed, std::uint64_t stream) {
  if (tensor.device.is_cuda() || !tensor.is_contiguous())
    throw InternalError("fill_random takes a dense CPU tensor, not " + describe(tensor));
  const std::uint64_t key = mix(mix(seed + kGolden) + stream * kGolden);
  const double low = range.low;
  const double width = range.high - range.low;
  const auto real = [=](std::uint64_t bits) { return static_cast<float>(low + unit(bits) * width); };
  switch (tensor.dtype) {
    case DType::f64:
      return fill<double>(tensor, key, [=](std::uint64_t bits) { return low + unit(bits) * width; });
    case DType::f32:
      return fill<float>(tensor, key, real);
    case DType::f16:
      return fill<std::uint16_t>(tensor, key, [=](std::uint64_t bits) { return formats::f32_to_f16(real(bits)); });
    case DType::bf16:
      return fill<std::uint16_t>(tensor, key, [=](std::uint64_t bits) { return formats::f32_to_bf16(real(bits)); });
    case DType::fp8e4m3:
      return fill<std::uint8_t>(tensor, key, [=](std::uint64_t bits) { return formats::f32_to_fp8e4m3(real(bits)); });
    case DType::fp8e5m2:
      return fill<std::uint8_t>(tensor, key, [=](std::uint64_t bits) { return formats::f32_to_fp8e5m2(real(bits)); });
    case DType::i64:
      return fill_integers<std::int64_t>(tensor, range, key);
    case DType::i32:
      return fill_integers<std::int32_t>(tensor, range, key);
    case DType::i16:
      return fill_integers<std::int16_t>(tensor, range, key);
    case DType::i8:
      return fill_integers<std::int8_t>(tensor, range, key);
    case DType::u64:
      return fill_integers<std::uint64_t>(tensor, range, key);
    case DType::u32:
      return fill_integers<std::uint32_t>(tensor, range, key);
    case DType::u16:
      return fill_integers<std::uint16_t>(tensor, range, key);
    case DType::u8:
      return fill_integers<std::uint8_t>(tensor, range, key);
    case DType::bool_:
      return fill<std::uint8_t>(tensor, key, [](std::uint64_t bits) { return static_cast<std::uint8_t>(bits >> 63); });
  }
}

}  // namespace kiln
