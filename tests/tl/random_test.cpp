// Philox and what is made of its words: published vectors, Triton's formulas, and the same bits on every target.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

constexpr const char* kText = R"(
#include <kiln/tl.hpp>

namespace randoms {

/// Row j of out[4, N] is word j of the block of counter column i, a column of counters[4, N].
template <int N>
KILN_KERNEL void philox_kernel(const uint32_t* counters, uint32_t* out, int64_t seed) {
  const auto places = tl::arange<N>();
  const auto words = tl::philox(seed, tl::load(counters + places), tl::load(counters + (places + N)),
                                tl::load(counters + (places + 2 * N)), tl::load(counters + (places + 3 * N)));
  tl::store(out + places, words.first);
  tl::store(out + (places + N), words.second);
  tl::store(out + (places + 2 * N), words.third);
  tl::store(out + (places + 3 * N), words.fourth);
}

template <typename T, typename Parts>
KILN_DEVICE void store_rows(T* out, int64_t n, const Parts& parts) {
  const auto places = tl::program_id(0) * 128 + tl::arange<128>();
  tl::store(out + places, parts.first);
  tl::store(out + (places + n), parts.second);
  tl::store(out + (places + 2 * n), parts.third);
  tl::store(out + (places + 3 * n), parts.fourth);
}

/// Four rows of n, a multiple of 128, of each kind; the fifth row is of the functions that give one number an offset.
template <typename I>
KILN_KERNEL void rows_kernel(const I* offsets, uint32_t* words, float* uniforms, float* normals, int64_t n,
                             int64_t seed) {
  const auto places = tl::program_id(0) * 128 + tl::arange<128>();
  const auto offset = tl::load(offsets + places);
  store_rows(words, n, tl::randint4x(seed, offset));
  store_rows(uniforms, n, tl::rand4x(seed, offset));
  store_rows(normals, n, tl::randn4x(seed, offset));
  tl::store(words + (places + 4 * n), tl::randint(seed, offset));
  tl::store(uniforms + (places + 4 * n), tl::rand(seed, offset));
  tl::store(normals + (places + 4 * n), tl::randn(seed, offset));
}

/// Numbers and symbolic indices in place of tiles.
template <int N>
KILN_KERNEL void operands_kernel(uint32_t* out, float* floats, int64_t seed, int64_t first) {
  tl::store(floats, tl::rand(seed, first));
  tl::store(floats + 1, tl::rand4x(seed, first).second);
  tl::store(floats + 2, tl::randn(seed, first));
  tl::store(floats + 3, tl::randn4x(seed, first).fourth);
  const auto numbers = tl::randint4x(seed, first);
  tl::store(out, numbers.first);
  tl::store(out + 1, numbers.fourth);
  tl::store(out + 2, tl::philox(seed, first, first >> 32, 0, 0).first);
  const auto places = tl::arange<N>();
  tl::store(out + (3 + places), tl::randint(seed, first + places));
  tl::store(out + (3 + N + places), tl::philox(seed, first + places, 0, 0, 7).second);
}

/// Words as they come, kCount of them to a block: element i is word i % kCount of block first + i / kCount. T decides
/// how many neighbours a thread holds.
template <typename T, int COUNT, int BLOCK_SIZE>
KILN_KERNEL void draw_kernel(T* out, int64_t seed, int64_t first) {
  const auto draw = [](const tl::PhiloxWords& words) {
    tl::Drawn<uint32_t, COUNT> drawn;
    KILN_UNROLL for (int i = 0; i < COUNT; ++i) drawn.element[i] = words.word[i];
    return drawn;
  };
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto counter = static_cast<uint64_t>(first + tl::program_id(0) * (BLOCK_SIZE / COUNT));
  tl::store(out + offsets, tl::draw_tile<BLOCK_SIZE>(tl::philox_keys(static_cast<uint64_t>(seed)), counter, draw));
}

template <int BLOCK_SIZE>
KILN_KERNEL void normal_double_kernel(double* out, int64_t seed) {
  const auto draw = [](const tl::PhiloxWords& words) {
    const auto polar = tl::box_muller(static_cast<uint64_t>(words.word[1]) << 32 | words.word[0],
                                      static_cast<uint64_t>(words.word[3]) << 32 | words.word[2]);
    return tl::Drawn<double, 2>{
        {tl::exact::product(polar.radius, polar.cosine), tl::exact::product(polar.radius, polar.sine)}};
  };
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto counter = static_cast<uint64_t>(tl::program_id(0) * (BLOCK_SIZE / 2));
  tl::store(out + offsets, tl::draw_tile<BLOCK_SIZE>(tl::philox_keys(static_cast<uint64_t>(seed)), counter, draw));
}

template <int BLOCK_SIZE>
KILN_KERNEL void square_root_kernel(float* x) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  tl::store(x + offsets,
            tl::map_elementwise([](float value) { return tl::exact::square_root(value); }, tl::load(x + offsets)));
}

}  // namespace randoms
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, std::int32_t num_warps = 4) {
  return {"tests/tl/random_test.hpp", kText, "randoms::" + name, std::move(arguments), num_warps};
}

using Words = std::array<std::uint32_t, 4>;

Words philox(std::uint64_t seed, std::uint64_t counter) {
  Words c = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53} * c[0], b = std::uint64_t{0xcd9e8d57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key1, static_cast<std::uint32_t>(a)};
    key0 += 0x9e3779b9;
    key1 += 0xbb67ae85;
  }
  return c;
}

/// triton.language's uint_to_uniform_float, in its own words: x < 0 becomes -x - 1.
float triton_uniform(std::uint32_t word) {
  std::int64_t x = static_cast<std::int32_t>(word);
  if (x < 0) x = -x - 1;
  return static_cast<float>(static_cast<std::int32_t>(x)) * 4.6566127342e-10F;
}

/// triton.language's pair_uniform_to_normal, in double, of u1 and a number of turns.
std::array<double, 2> normal_pair(float u1, double turns) {
  const double radius = std::sqrt(-2 * std::log(std::max(1e-7F, u1))), angle = 2 * std::numbers::pi * turns;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

template <typename T>
std::uint64_t hash_of(const Tensor& tensor) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a over whole elements
  for (std::int64_t i = 0; i < tensor.numel(); ++i) hash = (hash ^ tensor.data_as<T>()[i]) * 1099511628211U;
  return hash;
}

class TileRandom : public ::testing::TestWithParam<Device> {};

TEST_P(TileRandom, PhiloxGivesRandom123sVectors) {
  struct Vector {
    std::array<std::uint32_t, 4> counter;
    std::uint64_t key;
    std::array<std::uint32_t, 4> expected;
  };
  // philox4x32 with 10 rounds, from kat_vectors of the authors' library.
  const Vector vectors[] = {
      {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       0xffffffffffffffff,
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       0x299f31d0a4093822,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  constexpr std::size_t kN = 16;
  for (const Vector& vector : vectors) {
    std::vector<std::uint32_t> counters(4 * kN);
    for (std::size_t i = 0; i < counters.size(); ++i) counters[i] = vector.counter[i / kN];
    std::vector<Tensor> tensors{tensor_of(DType::u32, counters),
                                tensor_of(DType::u32, std::vector<std::uint32_t>(4 * kN))};
    kernel("philox_kernel", {std::int64_t{kN}})
        .run(GetParam(), {1, 1, 1}, tensors, {static_cast<std::int64_t>(vector.key)});
    const auto words = values_of<std::uint32_t>(tensors[1]);
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], vector.expected[i / kN]) << i;
  }
}

template <typename I>
void check_rows(Device device, DType dtype, const std::vector<I>& offsets, std::int64_t seed) {
  SCOPED_TRACE(::testing::Message() << name(dtype) << " seed " << seed);
  const std::size_t n = offsets.size();
  std::vector<Tensor> tensors{tensor_of(dtype, offsets), tensor_of(DType::u32, std::vector<std::uint32_t>(5 * n)),
                              tensor_of(DType::f32, std::vector<float>(5 * n)),
                              tensor_of(DType::f32, std::vector<float>(5 * n))};
  kernel("rows_kernel", {dtype})
      .run(device, {static_cast<std::int64_t>(n / 128), 1, 1}, tensors, {static_cast<std::int64_t>(n), seed});
  const auto words = values_of<std::uint32_t>(tensors[1]);
  const auto uniforms = values_of<float>(tensors[2]), normals = values_of<float>(tensors[3]);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t counter =
        sizeof(I) > 4 ? static_cast<std::uint64_t>(offsets[i]) : std::uint64_t{static_cast<std::uint32_t>(offsets[i])};
    const Words expected = philox(static_cast<std::uint64_t>(seed), counter);
    for (std::size_t row = 0; row < 4; ++row) {
      ASSERT_EQ(words[row * n + i], expected[row]) << i;
      ASSERT_EQ(uniforms[row * n + i], triton_uniform(expected[row])) << i;
      const float u1 = triton_uniform(expected[row & 2]), u2 = triton_uniform(expected[row | 1]);
      const std::uint32_t word = expected[row | 1];
      ASSERT_NEAR(normals[row * n + i], normal_pair(u1, (word < 1U << 31 ? word : ~word) * 0x1p-31)[row & 1], 1e-6);
      // Triton rounds u2, to 1.2e-7 of a turn at most.
      ASSERT_NEAR(normals[row * n + i], normal_pair(u1, u2)[row & 1], 6e-6) << i;
    }
    ASSERT_EQ(words[4 * n + i], words[i]);
    ASSERT_EQ(uniforms[4 * n + i], uniforms[i]);
    ASSERT_EQ(normals[4 * n + i], normals[i]);
  }
}

TEST_P(TileRandom, MatchesTritonsFormulas) {
  std::vector<std::int32_t> narrow;
  std::vector<std::int64_t> wide;
  for (int i = 0; i < 4096; ++i) {
    narrow.push_back(i < 2048 ? i : -i);
    wide.push_back(i < 2048 ? (std::int64_t{1} << 32) - 1024 + i : -(std::int64_t{i} << 40));
  }
  for (const std::int64_t seed :
       {std::int64_t{0}, std::int64_t{42}, std::int64_t{-1}, std::int64_t{0x123456789abcdef}}) {
    check_rows(GetParam(), DType::i32, narrow, seed);
    check_rows(GetParam(), DType::i64, wide, seed);
  }
}

TEST_P(TileRandom, TakesNumbersAndSymbolicIndices) {
  constexpr std::size_t kN = 64;
  const std::int64_t seed = 7, first = (std::int64_t{1} << 32) - 5;
  std::vector<Tensor> tensors{tensor_of(DType::u32, std::vector<std::uint32_t>(3 + 2 * kN)),
                              tensor_of(DType::f32, std::vector<float>(4))};
  kernel("operands_kernel", {std::int64_t{kN}}).run(GetParam(), {1, 1, 1}, tensors, {seed, first});
  const auto out = values_of<std::uint32_t>(tensors[0]);
  EXPECT_EQ(out[0], philox(7, first)[0]);
  EXPECT_EQ(out[1], philox(7, first)[3]);
  EXPECT_EQ(out[2], philox(7, first)[0]);
  for (std::size_t i = 0; i < kN; ++i) EXPECT_EQ(out[3 + i], philox(7, first + i)[0]) << i;
  const auto floats = values_of<float>(tensors[1]);
  const Words words = philox(7, first);
  EXPECT_EQ(floats[0], triton_uniform(words[0]));
  EXPECT_EQ(floats[1], triton_uniform(words[1]));
  EXPECT_NEAR(floats[2], normal_pair(triton_uniform(words[0]), triton_uniform(words[1]))[0], 6e-6);
  EXPECT_NEAR(floats[3], normal_pair(triton_uniform(words[2]), triton_uniform(words[3]))[1], 6e-6);
  for (std::size_t i = 1; i < kN; ++i) EXPECT_NE(out[3 + kN + i], out[3 + kN]) << i;
}

TEST_P(TileRandom, DrawsEveryElementFromItsPlaceInAnyLayout) {
  const std::int64_t seed = 99, first = 1000;
  struct Layout {
    DType dtype;
    std::int64_t count, block_size;
    std::int32_t num_warps;
  };
  for (const Layout& layout :
       {Layout{DType::u32, 4, 512, 4}, Layout{DType::u32, 4, 128, 4}, Layout{DType::u32, 4, 64, 4},
        Layout{DType::u64, 4, 1024, 4}, Layout{DType::u64, 2, 256, 2}, Layout{DType::u16, 4, 2048, 1},
        Layout{DType::u32, 1, 256, 1}}) {
    SCOPED_TRACE(::testing::Message() << name(layout.dtype) << " x " << layout.count << ", " << layout.block_size
                                      << " on " << layout.num_warps);
    std::vector<Tensor> tensors{empty({3 * layout.block_size}, layout.dtype, Device::cpu())};
    kernel("draw_kernel", {layout.dtype, layout.count, layout.block_size}, layout.num_warps)
        .run(GetParam(), {3, 1, 1}, tensors, {seed, first});
    const std::int64_t bytes = itemsize_bytes(layout.dtype);
    for (std::int64_t i = 0; i < 3 * layout.block_size; ++i) {
      std::uint64_t got = 0;
      std::memcpy(&got, tensors[0].data_as<std::byte>() + i * bytes, static_cast<std::size_t>(bytes));
      const Words words = philox(99, static_cast<std::uint64_t>(first + i / layout.count));
      const std::uint64_t expected = words[static_cast<std::size_t>(i % layout.count)];
      ASSERT_EQ(got, bytes == 2 ? expected & 0xffff : expected) << i;
    }
  }
}

// What one target computes the others must: the hashes stand for a million normal numbers.
TEST_P(TileRandom, NormalNumbersHaveTheSameBitsEverywhere) {
  constexpr std::int64_t kOffsets = 1 << 18;
  std::vector<std::int32_t> offsets(kOffsets);
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<std::int32_t>(i);
  std::vector<Tensor> tensors{tensor_of(DType::i32, offsets), empty({5 * kOffsets}, DType::u32, Device::cpu()),
                              empty({5 * kOffsets}, DType::f32, Device::cpu()),
                              empty({5 * kOffsets}, DType::f32, Device::cpu())};
  kernel("rows_kernel", {DType::i32}).run(GetParam(), {kOffsets / 128, 1, 1}, tensors, {kOffsets, 20260});
  EXPECT_EQ(hash_of<std::uint32_t>(tensors[3]), 8300183565458018914U);

  std::vector<Tensor> doubles{empty({1 << 20}, DType::f64, Device::cpu())};
  kernel("normal_double_kernel", {std::int64_t{256}}).run(GetParam(), {(1 << 20) / 256, 1, 1}, doubles, {20260});
  EXPECT_EQ(hash_of<std::uint64_t>(doubles[0]), 9256843909989192416U);
  double largest = 0;
  for (std::size_t i = 0; i < 1 << 20; i += 2) {
    const Words words = philox(20260, i / 2);
    const double u1 = static_cast<double>(((std::uint64_t{words[1]} << 32 | words[0]) >> 11) + 1) * 0x1p-53;
    const double angle = 2 * std::numbers::pi * 0x1p-64 * static_cast<double>(std::uint64_t{words[3]} << 32 | words[2]);
    const double radius = std::sqrt(-2 * std::log(u1));
    largest = std::max({largest, std::abs(doubles[0].data_as<double>()[i] - radius * std::cos(angle)),
                        std::abs(doubles[0].data_as<double>()[i + 1] - radius * std::sin(angle))});
  }
  EXPECT_LT(largest, 1e-14);
}

TEST_P(TileRandom, SquareRootsAreIeee) {
  // Two binades hold every case: with the exponent's parity the rest repeats.
  constexpr std::int64_t kCount = 1 << 24;
  std::vector<Tensor> tensors{empty({kCount}, DType::f32, Device::cpu())};
  for (std::int64_t i = 0; i < kCount; ++i)
    tensors[0].data_as<float>()[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(0x3f800000 + i));
  kernel("square_root_kernel", {std::int64_t{256}}).run(GetParam(), {kCount / 256, 1, 1}, tensors);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kCount; ++i)
    wrong += tensors[0].data_as<float>()[i] !=
             std::sqrt(__builtin_bit_cast(float, static_cast<std::uint32_t>(0x3f800000 + i)));
  EXPECT_EQ(wrong, 0);
}

TEST(TileRandomCode, StaysInRegisters) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (const TextKernel& text :
       {kernel("philox_kernel", {std::int64_t{512}}), kernel("rows_kernel", {DType::i32}),
        kernel("rows_kernel", {DType::i64}), kernel("draw_kernel", {DType::u32, std::int64_t{4}, std::int64_t{1024}}),
        kernel("draw_kernel", {DType::u64, std::int64_t{4}, std::int64_t{1024}}),
        kernel("normal_double_kernel", {std::int64_t{256}})})
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const PtxasReport report = ptxas_report(text.request(parse_cuda_target(arch)));
      EXPECT_EQ(report.stack_bytes + report.spill_store_bytes + report.spill_load_bytes, 0) << text.name << " " << arch;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, TileRandom, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TileRandom);

}  // namespace
}  // namespace kiln::test
