// Shared memory by 32-bit addresses, and accesses of every size.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/tl/sm90_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kThreads = 128;
constexpr std::int64_t kMostElementBytes = 16;

constexpr const char* kText = R"(
#include "compiler/tl/cuda/sm90/shared_memory.hpp"
namespace shared_memory {
using namespace kiln::tl;
using namespace kiln::tl::sm90;

// Thread t writes element 2 (N - 1 - t) + 1 of 2 N, which hold `around`; `read` is element 2 t + 1 as get_shared has it.
template <typename T>
KILN_KERNEL void access(const T* x, const T* around, T* out, T* read) {
  constexpr int N = kNumThreads;
  __shared__ T places[2 * N];
  const int t = threadIdx.x;
  for (int i = t; i < 2 * N; i += N) places[i] = around[i];
  __syncthreads();
  put_shared(shared_address(places) + (2 * (N - 1 - t) + 1) * sizeof(T), x[t]);
  __syncthreads();
  for (int i = t; i < 2 * N; i += N) out[i] = places[i];
  const uint32_t address = shared_address(&places[2 * t + 1]);
  if constexpr (sizeof(T) == 16)
    read[t] = get_shared_quad(address);
  else if constexpr (sizeof(T) <= 4)
    read[t] = get_shared<T>(address);
  else
    read[t] = places[2 * t + 1];
}

template <typename Out, typename T>
KILN_DEVICE void pairs_of(const T* x, unsigned char* shared, Out* paired, Out* cast_alone) {
  const int t = threadIdx.x;
  put_pair<Out>(shared_address(shared) + 2 * t * sizeof(Out), x[2 * t], x[2 * t + 1]);
  __syncthreads();
  for (int i = t; i < 2 * kNumThreads; i += kNumThreads) {
    paired[i] = reinterpret_cast<const Out*>(shared)[i];
    cast_alone[i] = cast<Out>(x[i]);
  }
  __syncthreads();
}
// For each of OUTS 2 N elements, in steps of 16 N bytes.
template <typename T, typename... OUTS>
KILN_KERNEL void pairs(const T* x, unsigned char* paired, unsigned char* cast_alone) {
  constexpr int kStep = 2 * kNumThreads * 8;
  __shared__ __align__(16) unsigned char shared[kStep];
  int first = -kStep;
  ((first += kStep, pairs_of<OUTS>(x, shared, reinterpret_cast<OUTS*>(paired + first),
                             reinterpret_cast<OUTS*>(cast_alone + first))), ...);
}

}  // namespace shared_memory
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments) {
  return {"tests/tl/sm90_shared_memory.hpp", kText, "shared_memory::" + name, std::move(arguments)};
}

struct Element {
  TemplateArgument type;
  std::int64_t bytes;
  bool is_bool;
};

std::vector<Element> all_elements() {
  std::vector<Element> elements;
  for (const DType dtype : kAllDTypes) elements.push_back({dtype, itemsize_bytes(dtype), dtype == DType::bool_});
  elements.push_back({TypeName{"uint4"}, kMostElementBytes, false});
  return elements;
}

TextKernel pairs_kernel(DType from) {
  std::vector<TemplateArgument> arguments{from};
  for (const DType dtype : kAllDTypes) arguments.emplace_back(dtype);
  return kernel("pairs", arguments);
}

class Sm90SharedMemory : public Sm90Test {
 protected:
  std::vector<std::uint8_t> random_bytes(std::int64_t count, bool are_bools) {
    std::vector<std::uint8_t> bytes = Sm90Test::random_bytes(count);
    for (std::uint8_t& byte : bytes) byte &= are_bools ? 1U : 0xffU;
    return bytes;
  }
};

TEST_F(Sm90SharedMemory, PutsAndGetsEveryTypeAndLeavesTheNeighbours) {
  for (const Element& element : all_elements()) {
    SCOPED_TRACE(spell(element.type));
    const auto x = random_bytes(kThreads * element.bytes, element.is_bool);
    const auto around = random_bytes(2 * kThreads * element.bytes, element.is_bool);
    std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(around),
                                bits_tensor(std::vector<std::uint8_t>(around.size())),
                                bits_tensor(std::vector<std::uint8_t>(x.size()))};
    kernel("access", {element.type}).run(Device::cuda(), {1, 1, 1}, tensors);
    auto expected = around, read = x;
    for (std::int64_t t = 0; t < kThreads; ++t) {
      const auto from = x.begin() + t * element.bytes;
      std::copy_n(from, element.bytes, expected.begin() + (2 * (kThreads - 1 - t) + 1) * element.bytes);
      std::copy_n(from, element.bytes, read.begin() + (kThreads - 1 - t) * element.bytes);
    }
    EXPECT_EQ(values_of<std::uint8_t>(tensors[2]), expected);
    EXPECT_EQ(values_of<std::uint8_t>(tensors[3]), read);
  }
}

/// Runs put_pair of every pair of neighbours, to all dtypes, beside casts of one number.
template <typename T>
void expect_pairs_are_casts(DType from, const std::vector<T>& x) {
  constexpr std::size_t kStep = 2 * kThreads * 8;
  std::vector<Tensor> tensors{tensor_of(from, x), bits_tensor(std::vector<std::uint8_t>(kAllDTypes.size() * kStep)),
                              bits_tensor(std::vector<std::uint8_t>(kAllDTypes.size() * kStep))};
  pairs_kernel(from).run(Device::cuda(), {1, 1, 1}, tensors);
  const auto paired = values_of<std::uint8_t>(tensors[1]), alone = values_of<std::uint8_t>(tensors[2]);
  for (std::size_t i = 0; i < kAllDTypes.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(itemsize_bytes(kAllDTypes[i]));
    for (std::size_t element = 0; element < x.size(); ++element) {
      const std::size_t at = i * kStep + element * bytes;
      ASSERT_EQ(std::memcmp(&paired[at], &alone[at], bytes), 0) << +x[element] << " to " << name(kAllDTypes[i]);
    }
    EXPECT_TRUE(std::any_of(paired.begin() + static_cast<std::ptrdiff_t>(i * kStep),
                            paired.begin() + static_cast<std::ptrdiff_t>((i + 1) * kStep),
                            [](std::uint8_t byte) { return byte != 0; }))
        << name(kAllDTypes[i]);
  }
}

TEST_F(Sm90SharedMemory, PairsAreCastAsSingleNumbersAre) {
  using Limits = std::numeric_limits<float>;
  // Ends of ranges, and halfway between neighbours of bf16, f16 and the fp8 types.
  std::vector<float> floats{0.0F,
                            -0.0F,
                            Limits::infinity(),
                            -Limits::infinity(),
                            Limits::max(),
                            65519.0F,
                            65520.0F,
                            -65536.0F,
                            448.0F,
                            464.0F,
                            61440.0F,
                            0x1p-24F,
                            0x1p-25F,
                            0x1.8p-25F,
                            Limits::min(),
                            Limits::denorm_min(),
                            1.0F,
                            257.0F,
                            259.0F,
                            2049.0F,
                            2051.0F,
                            17.0F,
                            19.0F,
                            9.0F,
                            -3e9F,
                            3e9F,
                            Limits::quiet_NaN()};
  std::uniform_real_distribution<float> exponent(-30.0F, 30.0F), fraction(-2.0F, 2.0F);
  while (floats.size() < 2 * kThreads)
    floats.push_back(std::ldexp(fraction(random_), static_cast<int>(exponent(random_))));
  expect_pairs_are_casts(DType::f32, floats);

  std::vector<std::int32_t> integers{0,
                                     1,
                                     -1,
                                     127,
                                     128,
                                     -129,
                                     65535,
                                     65536,
                                     1 << 24,
                                     (1 << 24) + 1,
                                     std::numeric_limits<std::int32_t>::min(),
                                     std::numeric_limits<std::int32_t>::max()};
  while (integers.size() < 2 * kThreads) integers.push_back(static_cast<std::int32_t>(random_()) >> (random_() % 31));
  expect_pairs_are_casts(DType::i32, integers);
}

TEST(Sm90SharedMemoryCode, StaysInRegisters) {
  std::vector<TextKernel> kernels{pairs_kernel(DType::f32), pairs_kernel(DType::i32)};
  for (const Element& element : all_elements()) kernels.push_back(kernel("access", {element.type}));
  expect_compiled_to_registers(kernels);
}

}  // namespace
}  // namespace kiln::test
