// How GPUs widen fp8 to f16, by instruction and by bits (the CPU widens with tl::cast).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "core/float_formats.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

// All patterns of a fp8 type as f16, four to a program.
constexpr const char* kWidenKernel = R"(
#include <kiln/tl.hpp>

template <typename T, bool BY_BITS>
KILN_KERNEL void widen(tl::uint16_t* out) {
  const tl::uint32_t first = 4 * static_cast<tl::uint32_t>(tl::program_id(0));
  tl::uint32_t low, high;
  const tl::uint32_t bytes = first | (first + 1) << 8 | (first + 2) << 16 | (first + 3) << 24;
  if constexpr (BY_BITS)
    tl::widen_fp8_by_bits<T>(bytes, low, high);
  else
    tl::widen_fp8<T>(bytes, low, high);
  tl::store(out + first, static_cast<tl::uint16_t>(low));
  tl::store(out + first + 1, static_cast<tl::uint16_t>(low >> 16));
  tl::store(out + first + 2, static_cast<tl::uint16_t>(high));
  tl::store(out + first + 3, static_cast<tl::uint16_t>(high >> 16));
}
)";

TextKernel widen(DType dtype, bool by_bits) {
  TextKernel made{"tests/tl/cuda/widen.hpp", kWidenKernel, "widen", {dtype, by_bits}};
  made.num_warps = 1;
  return made;
}

class WidenFp8 : public ::testing::TestWithParam<DType> {};

TEST_P(WidenFp8, CompilesWithoutLocalMemory) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"})
    EXPECT_EQ(ptxas_report(widen(GetParam(), true).request(parse_cuda_target(arch))).stack_bytes, 0) << arch;
}

TEST_P(WidenFp8, IsExact) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  for (const bool by_bits : {false, true}) {
    std::vector<Tensor> tensors{bits_tensor(std::vector<std::uint16_t>(256, 77))};
    widen(GetParam(), by_bits).run(Device::cuda(), {64, 1, 1}, tensors);
    for (int bits = 0; bits < 256; ++bits) {
      SCOPED_TRACE(::testing::Message() << (by_bits ? "by bits: " : "by instruction: ") << bits);
      const float expected = GetParam() == DType::fp8e4m3 ? formats::fp8e4m3_to_f32(static_cast<std::uint8_t>(bits))
                                                          : formats::fp8e5m2_to_f32(static_cast<std::uint8_t>(bits));
      const float widened = formats::f16_to_f32(tensors[0].data_as<std::uint16_t>()[bits]);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(widened));
      else
        EXPECT_EQ(__builtin_bit_cast(std::uint32_t, widened), __builtin_bit_cast(std::uint32_t, expected));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, WidenFp8, ::testing::Values(DType::fp8e4m3, DType::fp8e5m2),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace kiln::test
