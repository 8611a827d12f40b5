// Matrix products of a warpgroup: every width, dtype and order of operands, and the first one from registers.

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/elements.hpp"
#include "tests/support/sweep_amount.hpp"
#include "tests/tl/sm90_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kWidths[] = {8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256};
constexpr std::int64_t kRows = 64, kMostColumns = 256;
constexpr std::int64_t kLineBytes = 128, kThreads = 128;

constexpr const char* kText = R"(
#include "compiler/tl/cuda/sm90/tensor_map.hpp"
#include "compiler/tl/cuda/sm90/wgmma_half.hpp"
#include "compiler/tl/cuda/sm90/wgmma_k_major_loaded.hpp"
namespace products {
using namespace kiln::tl;
using namespace kiln::tl::sm90;

constexpr int kLineBytes = 128;

// Chunks of 16 bytes to where the copy engine's 128-byte swizzle has them.
KILN_DEVICE void put_lines(uint32_t address, const uint4* from, int lines) {
  for (int i = threadIdx.x; i < lines * 8; i += kNumThreads)
    put_shared(address + i / 8 * kLineBytes + ((i % 8 ^ i / 8 % 8) << 4), from[i]);
}

// With LOADED the first operand comes from memory to registers, as the instruction deals it out.
template <typename A, typename B, bool A_MN, bool B_MN, bool LOADED>
struct Operands {
  static constexpr Major kA = A_MN ? Major::mn : Major::k, kB = B_MN ? Major::mn : Major::k;
  static constexpr int kPanelBytes = kLineBytes / static_cast<int>(sizeof(A)) * kLineBytes;
  uint32_t a, b;
  uint32_t words[kLineBytes / 32][4];

  KILN_DEVICE void load(const uint32_t* from) {
    KILN_UNROLL for (int i = 0; i < kLineBytes / 32 * 4; ++i) {
      const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
      words[i / 4][i % 4] = from[row * 32 + i / 4 * 8 + i % 4 / 2 * 4 + threadIdx.x % 4];
    }
  }

  template <int N, typename Sum>
  KILN_DEVICE void multiply(Sum (&d)[N], bool accumulate) const {
    const uint64_t first = operand_descriptor(a, kPanelBytes), second = operand_descriptor(b, kPanelBytes);
    KILN_UNROLL for (int step = 0; step < kLineBytes / 32; ++step) {
      if constexpr (LOADED)
        product<A, B>(d, words[step], second + step * kStepBytes<B, kB> / 16, accumulate || step > 0);
      else
        product<A, B, kA, kB>(d, first + step * kStepBytes<A, kA> / 16, second + step * kStepBytes<B, kB> / 16,
                              accumulate || step > 0);
    }
  }
};

// The next N columns' product. `start` and `out` have what the first thread holds of each register, then the second.
template <int N, typename Operands, typename Sum>
KILN_DEVICE void multiply_columns(const Operands& operands, const Sum*& start, Sum*& out, bool accumulate) {
  Sum d[N / 2];
  KILN_UNROLL for (int r = 0; r < N / 2; ++r) d[r] = start[r * kNumThreads];
  keep_registers(d);
  products_begin();
  operands.multiply(d, accumulate);
  products_commit();
  keep_registers(d);
  products_wait<0>();
  keep_registers(d);
  KILN_UNROLL for (int r = 0; r < N / 2; ++r) out[r * kNumThreads] = d[r];
  start += N / 2 * kNumThreads;
  out += N / 2 * kNumThreads;
}

// Of 128 bytes of k, for each of WIDTHS, the first so many columns of b. The first block's products replace what
// registers hold, the second's are added.
template <typename A, typename B, typename Sum, bool A_MN, bool B_MN, bool LOADED, int... WIDTHS>
KILN_KERNEL void widths(const uint4* a, const uint4* b, const Sum* start, Sum* out, int64_t a_lines, int64_t b_lines) {
  __shared__ __align__(1024) unsigned char shared[(64 + 256) * kLineBytes];
  Operands<A, B, A_MN, B_MN, LOADED> operands{shared_address(shared), shared_address(shared + 64 * kLineBytes)};
  if constexpr (LOADED)
    operands.load(reinterpret_cast<const uint32_t*>(a));
  else
    put_lines(operands.a, a, a_lines);
  put_lines(operands.b, b, b_lines);
  writes_ready();
  __syncthreads();
  constexpr int kElements = 64 * (WIDTHS + ...);
  start += blockIdx.x * kElements + threadIdx.x;
  out += blockIdx.x * kElements + threadIdx.x;
  (multiply_columns<WIDTHS>(operands, start, out, blockIdx.x == 1), ...);
}

// Two groups that run at once: the first, of columns 0 to N, is read while the second, of the next N, may still run.
template <typename T, int N>
KILN_KERNEL void groups(const uint4* a, const uint4* b, float* out) {
  __shared__ __align__(1024) unsigned char shared[(64 + 2 * N) * kLineBytes];
  Operands<T, T, false, false, false> operands{shared_address(shared), shared_address(shared + 64 * kLineBytes)};
  put_lines(operands.a, a, 64);
  put_lines(operands.b, b, 2 * N);
  writes_ready();
  __syncthreads();
  float first[N / 2], second[N / 2];
  products_begin();
  operands.multiply(first, false);
  products_commit();
  operands.b += N * kLineBytes;
  operands.multiply(second, false);
  products_commit();
  products_wait<1>();
  keep_registers(first);
  KILN_UNROLL for (int r = 0; r < N / 2; ++r) out[r * kNumThreads + threadIdx.x] = first[r];
  products_wait<0>();
  keep_registers(second);
  KILN_UNROLL for (int r = 0; r < N / 2; ++r) out[(N / 2 + r) * kNumThreads + threadIdx.x] = second[r];
}

}  // namespace products
)";

struct Combination {
  DType a, b;
  bool a_mn = false, b_mn = false, a_loaded = false;
};

std::vector<Combination> all_combinations() {
  std::vector<Combination> all;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool a_mn : {false, true})
      for (const bool b_mn : {false, true}) all.push_back({dtype, dtype, a_mn, b_mn});
  for (const bool a_loaded : {false, true}) {
    all.push_back({DType::f32, DType::f32, false, false, a_loaded});
    for (const auto& [first, second] : {std::pair{DType::fp8e4m3, DType::fp8e5m2}, {DType::i8, DType::u8}})
      for (const DType a : {first, second})
        for (const DType b : {first, second}) all.push_back({a, b, false, false, a_loaded});
  }
  return all;
}

TextKernel widths_kernel(const Combination& which) {
  TextKernel made{
      "tests/tl/sm90_wgmma.hpp",
      kText,
      "products::widths",
      {which.a, which.b, is_integer(which.a) ? DType::i32 : DType::f32, which.a_mn, which.b_mn, which.a_loaded}};
  for (const std::int64_t width : kWidths) made.arguments.emplace_back(width);
  return made;
}

TextKernel groups_kernel(DType dtype, std::int64_t columns) {
  return {"tests/tl/sm90_wgmma.hpp", kText, "products::groups", {dtype, columns}};
}

/// A matrix of `extent` rows or columns and 128 bytes of k: whole numbers, and how a kernel takes them.
struct Operand {
  std::int64_t extent, k;
  std::vector<int> values;           ///< [extent][k]
  std::vector<std::uint8_t> memory;  ///< lines of 128 bytes

  int at(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * k + j)]; }
};

/// A number that the dtype has exactly. Those of f32 get bits that tf32 has no room for, which a product drops.
void encode(DType dtype, int value, std::uint32_t lower_bits, std::uint8_t* to) {
  write_number(dtype, to, value);
  if (dtype != DType::f32 || value == 0) return;
  const std::uint32_t bits = read_as<std::uint32_t>(to) | (lower_bits & 0x1fffU);
  write_as(to, bits);
}

class Sm90Wgmma : public Sm90Test {
 protected:
  Operand random_operand(DType dtype, bool is_mn, std::int64_t extent) {
    const std::int64_t size = itemsize_bytes(dtype), across = kLineBytes / size;
    Operand operand{extent, across, {}, {}};
    const int most = dtype == DType::u8 ? 255 : dtype == DType::i8 ? 127 : dtype == DType::fp8e5m2 ? 4 : 8;
    std::uniform_int_distribution<int> number(dtype == DType::u8 ? 0 : -most, most);
    operand.memory.resize(static_cast<std::size_t>(extent * kLineBytes));
    for (std::int64_t i = 0; i < extent; ++i)
      for (std::int64_t j = 0; j < across; ++j) {
        const int value = operand.values.emplace_back(number(random_));
        // By panels of `across` of m or n: in each, lines of k.
        const std::int64_t line = is_mn ? i / across * across + j : i, place = is_mn ? i % across : j;
        encode(dtype, value, static_cast<std::uint32_t>(random_()),
               &operand.memory[static_cast<std::size_t>(line * kLineBytes + place * size)]);
      }
    return operand;
  }
};

/// Where kernels put a product's element: what all threads hold of the first register, then of the second.
std::size_t place_of(std::int64_t row, std::int64_t column) {
  const std::int64_t thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
  const std::int64_t in_thread = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
  return static_cast<std::size_t>(in_thread * kThreads + thread);
}

double product_at(const Operand& a, const Operand& b, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.k; ++k) sum += static_cast<double>(a.at(row, k)) * b.at(column, k);
  return sum;
}

/// Sums are whole numbers that every accumulator has exactly, the 14 bits of fp8's too.
template <typename Sum>
void expect_products(const Combination& which, const Operand& a, const Operand& b, std::mt19937& random) {
  std::int64_t count = 0;
  for (const std::int64_t width : kWidths) count += 2 * kRows * width;
  std::vector<Sum> start(static_cast<std::size_t>(count));
  std::uniform_int_distribution<int> whole(-1000, 1000);
  for (Sum& value : start) value = static_cast<Sum>(whole(random));
  std::vector<Tensor> tensors{bits_tensor(a.memory), bits_tensor(b.memory), bits_tensor(start),
                              bits_tensor(std::vector<Sum>(start.size()))};
  widths_kernel(which).run(Device::cuda(), {2, 1, 1}, tensors, {a.extent, b.extent});
  std::size_t first = 0;
  for (const bool adds : {false, true})
    for (const std::int64_t width : kWidths) {
      for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t column = 0; column < width; ++column) {
          const std::size_t at = first + place_of(row, column);
          ASSERT_EQ(static_cast<double>(tensors[3].data_as<Sum>()[at]),
                    product_at(a, b, row, column) + (adds ? static_cast<double>(start[at]) : 0.0))
              << "width " << width << ", row " << row << ", column " << column << (adds ? ", added" : "");
        }
      first += static_cast<std::size_t>(kRows * width);
    }
}

TEST_F(Sm90Wgmma, MultipliesEveryWidthAndTypeAndOrder) {
  for (const Combination& which : all_combinations()) {
    SCOPED_TRACE(::testing::Message() << name(which.a)
                                      << (which.a_loaded ? " in registers, "
                                          : which.a_mn   ? " along m, "
                                                         : " along k, ")
                                      << name(which.b) << (which.b_mn ? " along n" : " along k"));
    const Operand a = random_operand(which.a, which.a_mn, kRows), b = random_operand(which.b, which.b_mn, kMostColumns);
    if (is_integer(which.a))
      expect_products<std::int32_t>(which, a, b, random_);
    else
      expect_products<float>(which, a, b, random_);
  }
}

TEST_F(Sm90Wgmma, AGroupIsReadWhileTheNextRuns) {
  constexpr std::int64_t kColumns = 64;
  const Operand a = random_operand(DType::bf16, false, kRows), b = random_operand(DType::bf16, false, 2 * kColumns);
  std::vector<Tensor> tensors{bits_tensor(a.memory), bits_tensor(b.memory),
                              empty({2 * kRows * kColumns}, DType::f32, Device::cpu())};
  groups_kernel(DType::bf16, kColumns).run(Device::cuda(), {1, 1, 1}, tensors);
  const float* const out = tensors[2].data_as<float>();
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t column = 0; column < 2 * kColumns; ++column)
      ASSERT_EQ(out[static_cast<std::size_t>(column / kColumns * kColumns * kRows) + place_of(row, column % kColumns)],
                product_at(a, b, row, column))
          << "row " << row << ", column " << column;
}

TEST(Sm90WgmmaCode, StaysInRegisters) {
  std::vector<TextKernel> kernels{groups_kernel(DType::bf16, 64)};
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  std::mt19937_64 random(sweep_seed());
  for (const Combination& which : swept_by_halves(all_combinations(), 4, random))
    kernels.push_back(widths_kernel(which));
  expect_compiled_to_registers(kernels);
}

}  // namespace
}  // namespace kiln::test
