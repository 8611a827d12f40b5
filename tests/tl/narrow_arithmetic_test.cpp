#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/float_formats.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

constexpr int kPatterns = 65536;

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

/// Program (i, j): block i of x with y[j], each operation rounded.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void arithmetic_kernel(const T* x, const T* y, T* sum, T* difference, T* product, T* chain) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto places = tl::program_id(1) * 65536 + offsets;
  const auto a = tl::load(x + offsets);
  const auto b = tl::full<T, BLOCK_SIZE>(tl::load(y + tl::program_id(1)));
  tl::store(sum + places, a + b);
  tl::store(difference + places, a - b);
  tl::store(product + places, a * b);
  tl::store(chain + places, a * b + b);
}
)";

struct Format {
  DType dtype;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
  std::vector<std::uint16_t>
      operands;  ///< beside random ones: zeros, ones, subnormals, the ends of the range, infinities, NaN
};

const Format kFormats[] = {
    {DType::f16,
     [](std::uint16_t bits) { return formats::f16_to_f32(bits); },
     [](float value) { return static_cast<std::uint16_t>(formats::f32_to_f16(value)); },
     {0x0000, 0x8000, 0x3c00, 0xbc00, 0x3c01, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00}},
    {DType::bf16,
     [](std::uint16_t bits) { return formats::bf16_to_f32(bits); },
     [](float value) { return static_cast<std::uint16_t>(formats::f32_to_bf16(value)); },
     {0x0000, 0x8000, 0x3f80, 0xbf80, 0x3f81, 0x0001, 0x807f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0}},
};

/// Every x with some y: the bits of the same operation in float, rounded once. Any NaN stands for any other.
void expect_rounded_once(const Format& format, Device device, std::int64_t block_size, std::int32_t num_warps) {
  SCOPED_TRACE(std::string(name(format.dtype)) + " on " + to_string(device) +
               ", BLOCK_SIZE=" + std::to_string(block_size));
  std::vector<std::uint16_t> x(kPatterns), y = format.operands;
  for (int i = 0; i < kPatterns; ++i) x[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i);
  std::mt19937 random{17};
  for (int i = 0; i < 8; ++i) y.push_back(static_cast<std::uint16_t>(random()));

  std::vector<Tensor> tensors{tensor_of(format.dtype, x), tensor_of(format.dtype, y)};
  for (int i = 0; i < 4; ++i)
    tensors.push_back(tensor_of(format.dtype, std::vector<std::uint16_t>(x.size() * y.size(), 0x5555)));
  TextKernel{"arithmetic.hpp", kKernels, "arithmetic_kernel", {format.dtype, block_size}, num_warps}.run(
      device, {kPatterns / block_size, static_cast<std::int64_t>(y.size()), 1}, tensors);

  const auto is_nan = [&](std::uint16_t bits) { return std::isnan(format.widen(bits)); };
  const char* const names[] = {"x + y", "x - y", "x * y", "x * y + y"};
  for (std::size_t j = 0; j < y.size(); ++j) {
    const float b = format.widen(y[j]);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float a = format.widen(x[i]);
      const std::uint16_t product = format.narrow(a * b);
      const std::uint16_t expected[] = {format.narrow(a + b), format.narrow(a - b), product,
                                        format.narrow(format.widen(product) + b)};
      for (std::size_t k = 0; k < 4; ++k) {
        const std::uint16_t got = static_cast<const std::uint16_t*>(tensors[2 + k].data())[j * x.size() + i];
        if (got != expected[k] && !(is_nan(got) && is_nan(expected[k])))
          FAIL() << names[k] << " of x = " << a << " (" << x[i] << "), y = " << b << " (" << y[j] << ") gave bits "
                 << got << ", expected " << expected[k];
      }
    }
  }
}

TEST(NarrowArithmetic, RoundsOnceForEveryPattern) {
  for (const Device device : devices_with_compilers())
    for (const Format& format : kFormats) {
      expect_rounded_once(format, device, 256, 1);
      expect_rounded_once(format, device, 128, 4);  // one element a thread: nothing to pair
    }
}

}  // namespace
}  // namespace kiln::test
