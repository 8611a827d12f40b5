#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "core/dtype.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

constexpr const char* kText = R"(
#include <kiln/tl.hpp>

namespace atomics {

enum Operation { kAdd, kMax, kMin, kAnd, kOr, kXor, kExchange };

template <int OPERATION, typename P, typename V, typename... M>
KILN_DEVICE auto apply(const P& pointers, const V& values, const M&... mask) {
  if constexpr (OPERATION == kAdd) return tl::atomic_add(pointers, values, mask...);
  else if constexpr (OPERATION == kMax) return tl::atomic_max(pointers, values, mask...);
  else if constexpr (OPERATION == kMin) return tl::atomic_min(pointers, values, mask...);
  else if constexpr (OPERATION == kAnd) return tl::atomic_and(pointers, values, mask...);
  else if constexpr (OPERATION == kOr) return tl::atomic_or(pointers, values, mask...);
  else if constexpr (OPERATION == kXor) return tl::atomic_xor(pointers, values, mask...);
  else return tl::atomic_xchg(pointers, values, mask...);
}

/// bins[places[i]] changes by x[i]; before[i] is what was there.
template <typename T, int OPERATION, int BLOCK_SIZE>
KILN_KERNEL void scatter_kernel(T* bins, const T* x, const int32_t* places, T* before, int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  const auto place = tl::load(places + offsets, mask);
  const auto old = apply<OPERATION>(bins + place, tl::load(x + offsets, mask), mask);
  tl::store(before + offsets, old, mask);
}

/// As above where nobody asks for the old values.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void count_kernel(T* bins, const int32_t* places, int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  tl::atomic_add(bins + tl::load(places + offsets, mask), 1, mask);
}

/// Every operation, for compilers to see.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void all_kernel(T* x) {
  const auto pointers = x + tl::arange<BLOCK_SIZE>();
  const auto values = tl::load(pointers);
  tl::atomic_add(pointers, values);
  tl::atomic_max(pointers, values);
  tl::atomic_min(pointers, values);
  tl::atomic_xchg(pointers, values);
  tl::store(pointers, tl::atomic_cas(pointers, values, tl::atomic_add(x, 1)));
  if constexpr (tl::Integer<T>) {
    tl::atomic_and(pointers, values);
    tl::atomic_or(pointers, values);
    tl::atomic_xor(pointers, values);
  }
}

/// rows[i] = sum over j of x[i, j], by adding every column's tile: symbolic addresses in two dimensions, one of stride 0.
template <typename T, int M, int N>
KILN_KERNEL void rows_kernel(T* rows, const T* x, int64_t n) {
  const auto i = tl::expand_dims<1>(tl::arange<M>());
  const auto j = tl::expand_dims<0>(tl::arange<N>());
  tl::atomic_add(rows + (i + j * 0), tl::load(x + (i * n + j), j < n), j < n);
}

/// One element of every bin's takers wins: owner[place] goes from 0 to the winner's number plus 1.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void claim_kernel(T* owner, const int32_t* places, T* before, int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  const auto place = tl::where(mask, tl::load(places + offsets, mask), n);  // bin n is for those without
  tl::store(before + offsets, tl::atomic_cas(owner + place, 0, tl::cast<T>(offsets + 1)), mask);
}

/// order[ticket] = program, where tickets are drawn one by one; the last program adds up what all have stored.
template <int BLOCK_SIZE>
KILN_KERNEL void ticket_kernel(int32_t* counter, int32_t* order, float* partials, float* total) {
  const int64_t program = tl::program_id(0), programs = tl::num_programs(0);
  const auto places = tl::arange<BLOCK_SIZE>();
  tl::store(partials + (program * BLOCK_SIZE + places), tl::full<float, BLOCK_SIZE>(1.0f));
  const int32_t ticket = tl::atomic_add(counter, 1);
  tl::store(order + ticket, tl::cast<int32_t>(program));
  if (ticket + 1 == programs) {
    float sum = 0;
    for (int64_t i = 0; i < programs; ++i) sum += tl::sum(tl::load(partials + (i * BLOCK_SIZE + places)));
    tl::store(total, sum);
  }
  tl::atomic_max(counter + 1, ticket);
  tl::atomic_add(counter + 2, 100, false);
}

}  // namespace atomics
)";

enum Operation : std::int64_t { kAdd, kMax, kMin, kAnd, kOr, kXor, kExchange };

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, std::int32_t num_warps = 4) {
  return {"tests/tl/atomics.hpp", kText, "atomics::" + name, std::move(arguments), num_warps};
}

constexpr DType kDtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                             DType::i16, DType::i8,  DType::u64, DType::u32,  DType::u16, DType::u8};

/// Element i, of a dtype above: a double holds every value used here.
double get(const Tensor& tensor, std::size_t i) {
  const auto size = static_cast<std::size_t>(itemsize_bytes(tensor.dtype()));
  return read_number(tensor.dtype(), tensor.data_as<std::byte>() + i * size);
}

class Atomic : public ::testing::TestWithParam<Device> {
 protected:
  std::vector<double> random_places(std::size_t n, std::size_t bins) {
    std::vector<double> places(n);
    for (double& place : places) place = static_cast<double>(random_() % bins);
    return places;
  }
  std::mt19937 random_{std::random_device{}()};
};

/// Tiles smaller and larger than a program's threads; num_warps only matters on the GPU.
constexpr struct {
  std::int64_t block;
  std::int32_t num_warps;
} kShapes[] = {{1, 4}, {8, 1}, {64, 4}, {256, 2}};

TEST_P(Atomic, AddsEveryElementOnceInEveryType) {
  constexpr std::size_t kBins = 37, kCount = 1000;
  for (const DType dtype : kDtypes)
    for (const auto& [block, num_warps] : kShapes) {
      if (block != 64 && dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::i8) continue;
      const auto places = random_places(kCount, kBins);
      std::vector<double> expected(kBins, 1);
      for (const double place : places) expected[static_cast<std::size_t>(place)] += 1;
      std::vector<Tensor> tensors{tensor_of_numbers(dtype, std::vector<double>(kBins, 1)),
                                  tensor_of_numbers(dtype, std::vector<double>(kCount, 1)),
                                  tensor_of_numbers(DType::i32, places),
                                  tensor_of_numbers(dtype, std::vector<double>(kCount, 77))};
      kernel("scatter_kernel", {dtype, std::int64_t{kAdd}, block}, num_warps)
          .run(GetParam(), {(static_cast<std::int64_t>(kCount) + block - 1) / block, 1, 1}, tensors, {kCount});
      std::map<double, std::vector<double>> seen;
      for (std::size_t i = 0; i < kCount; ++i) seen[places[i]].push_back(get(tensors[3], i));
      for (std::size_t bin = 0; bin < kBins; ++bin) {
        ASSERT_EQ(get(tensors[0], bin), expected[bin]) << name(dtype) << " bin " << bin << " block " << block;
        auto& before = seen[static_cast<double>(bin)];
        std::sort(before.begin(), before.end());
        for (std::size_t k = 0; k < before.size(); ++k)  // every count from 1 on was seen by one element
          ASSERT_EQ(before[k], static_cast<double>(k + 1)) << name(dtype) << " bin " << bin << " block " << block;
      }
    }
}

TEST_P(Atomic, AddsWhereNobodyAsksForOldValues) {
  constexpr std::size_t kBins = 5, kCount = 3000;
  for (const DType dtype : {DType::f64, DType::i64, DType::u32, DType::f16})
    for (const auto& [block, num_warps] : kShapes) {
      const auto places = random_places(kCount, kBins);
      std::vector<double> expected(kBins);
      for (const double place : places) expected[static_cast<std::size_t>(place)] += 1;
      std::vector<Tensor> tensors{tensor_of_numbers(dtype, std::vector<double>(kBins)),
                                  tensor_of_numbers(DType::i32, places)};
      kernel("count_kernel", {dtype, block}, num_warps)
          .run(GetParam(), {(static_cast<std::int64_t>(kCount) + block - 1) / block, 1, 1}, tensors, {kCount});
      for (std::size_t bin = 0; bin < kBins; ++bin)
        ASSERT_EQ(get(tensors[0], bin), expected[bin]) << name(dtype) << " block " << block;
    }
}

TEST_P(Atomic, LargestAndSmallest) {
  constexpr std::size_t kBins = 11, kCount = 700;
  for (const DType dtype : kDtypes)
    for (const Operation operation : {kMax, kMin}) {
      const bool is_signed = info(dtype).is_signed;
      const auto places = random_places(kCount, kBins);
      std::vector<double> x(kCount), expected(kBins, operation == kMax && is_signed ? -120
                                                     : operation == kMax            ? 0
                                                                                    : 120);
      const std::vector<double> initial = expected;
      for (std::size_t i = 0; i < kCount; ++i) {
        x[i] = static_cast<double>(random_() % 100) - (is_signed ? 50 : 0);
        double& bin = expected[static_cast<std::size_t>(places[i])];
        bin = operation == kMax ? std::max(bin, x[i]) : std::min(bin, x[i]);
      }
      std::vector<Tensor> tensors{tensor_of_numbers(dtype, initial), tensor_of_numbers(dtype, x),
                                  tensor_of_numbers(DType::i32, places),
                                  tensor_of_numbers(dtype, std::vector<double>(kCount, 77))};
      kernel("scatter_kernel", {dtype, std::int64_t{operation}, std::int64_t{128}})
          .run(GetParam(), {6, 1, 1}, tensors, {kCount});
      for (std::size_t bin = 0; bin < kBins; ++bin)
        ASSERT_EQ(get(tensors[0], bin), expected[bin]) << name(dtype) << " operation " << operation << " bin " << bin;
    }
}

TEST_P(Atomic, NanStaysInMaximumAndMinimum) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const Operation operation : {kMax, kMin}) {
      // Bin 0 starts as NaN (of either sign), bin 1 is given one, bin 2 sees infinities of the other side.
      const double infinity = operation == kMax ? -INFINITY : INFINITY;
      for (const double sign : {1.0, -1.0}) {
        std::vector<Tensor> tensors{tensor_of_numbers(dtype, {std::copysign(NAN, sign), 3, infinity}),
                                    tensor_of_numbers(dtype, {1, -1, 5, std::copysign(NAN, sign), 7, infinity, -2}),
                                    tensor_of_numbers(DType::i32, {0, 0, 1, 1, 1, 2, 2}),
                                    tensor_of_numbers(dtype, std::vector<double>(7, 77))};
        kernel("scatter_kernel", {dtype, std::int64_t{operation}, std::int64_t{8}})
            .run(GetParam(), {1, 1, 1}, tensors, {7});
        EXPECT_TRUE(std::isnan(get(tensors[0], 0))) << name(dtype);
        EXPECT_TRUE(std::isnan(get(tensors[0], 1))) << name(dtype);
        EXPECT_EQ(get(tensors[0], 2), -2) << name(dtype);
      }
    }
}

TEST_P(Atomic, BitOperationsOfIntegers) {
  for (const DType dtype : kDtypes) {
    if (!is_integer(dtype)) continue;
    const std::vector<double> x{1, 2, 4, 8, 9, 16, 64, 3, 3};
    const std::vector<double> places(x.size(), 0);
    const double initial = 0x55;
    unsigned all_and = 0x55, all_or = 0x55, all_xor = 0x55;
    for (const double value : x) {
      all_and &= static_cast<unsigned>(value) | 0x50U;
      all_or |= static_cast<unsigned>(value);
      all_xor ^= static_cast<unsigned>(value);
    }
    const auto run = [&](Operation operation, const std::vector<double>& given) {
      std::vector<Tensor> tensors{tensor_of_numbers(dtype, {initial}), tensor_of_numbers(dtype, given),
                                  tensor_of_numbers(DType::i32, places),
                                  tensor_of_numbers(dtype, std::vector<double>(x.size(), 77))};
      kernel("scatter_kernel", {dtype, std::int64_t{operation}, std::int64_t{16}})
          .run(GetParam(), {1, 1, 1}, tensors, {static_cast<std::int64_t>(x.size())});
      return get(tensors[0], 0);
    };
    std::vector<double> masks;
    for (const double value : x) masks.push_back(static_cast<unsigned>(value) | 0x50U);
    EXPECT_EQ(run(kAnd, masks), all_and) << name(dtype);
    EXPECT_EQ(run(kOr, x), all_or) << name(dtype);
    EXPECT_EQ(run(kXor, x), all_xor) << name(dtype);
  }
}

TEST_P(Atomic, ExchangeLosesNothing) {
  constexpr std::size_t kCount = 100;
  for (const DType dtype : kDtypes) {
    std::vector<double> x(kCount);
    for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<double>(i + 1);
    std::vector<Tensor> tensors{tensor_of_numbers(dtype, {0}), tensor_of_numbers(dtype, x),
                                tensor_of_numbers(DType::i32, std::vector<double>(kCount, 0)),
                                tensor_of_numbers(dtype, std::vector<double>(kCount, 77))};
    kernel("scatter_kernel", {dtype, std::int64_t{kExchange}, std::int64_t{32}})
        .run(GetParam(), {4, 1, 1}, tensors, {kCount});
    std::vector<double> seen{get(tensors[0], 0)};
    for (std::size_t i = 0; i < kCount; ++i) seen.push_back(get(tensors[3], i));
    std::sort(seen.begin(), seen.end());
    for (std::size_t i = 0; i <= kCount; ++i) ASSERT_EQ(seen[i], static_cast<double>(i)) << name(dtype);
  }
}

TEST_P(Atomic, CompareAndSwapHasOneWinner) {
  constexpr std::size_t kBins = 20, kCount = 120;
  for (const DType dtype : {DType::i32, DType::u64, DType::f32, DType::f16, DType::i8}) {
    const auto places = random_places(kCount, kBins);
    std::vector<Tensor> tensors{tensor_of_numbers(dtype, std::vector<double>(kCount + 1)),
                                tensor_of_numbers(DType::i32, places),
                                tensor_of_numbers(dtype, std::vector<double>(kCount, 77))};
    kernel("claim_kernel", {dtype, std::int64_t{32}}).run(GetParam(), {4, 1, 1}, tensors, {kCount});
    for (std::size_t i = 0; i < kCount; ++i) {
      const double owner = get(tensors[0], static_cast<std::size_t>(places[i]));
      const double before = get(tensors[2], i);
      ASSERT_GE(owner, 1);
      ASSERT_EQ(places[static_cast<std::size_t>(owner) - 1], places[i]) << name(dtype);
      ASSERT_EQ(before, owner == static_cast<double>(i + 1) ? 0 : owner) << name(dtype);
    }
  }
}

TEST_P(Atomic, SymbolicAddressesThatMeet) {
  constexpr std::int64_t kM = 8, kN = 27;
  std::vector<double> x(kM * kN), rows(kM);
  for (std::size_t i = 0; i < x.size(); ++i) rows[i / kN] += x[i] = static_cast<double>(random_() % 9);
  std::vector<Tensor> tensors{tensor_of_numbers(DType::f32, std::vector<double>(kM)), tensor_of_numbers(DType::f32, x)};
  kernel("rows_kernel", {DType::f32, kM, std::int64_t{32}}).run(GetParam(), {1, 1, 1}, tensors, {kN});
  for (std::size_t i = 0; i < kM; ++i) EXPECT_EQ(get(tensors[0], i), rows[i]);
}

TEST_P(Atomic, OneNumberOncePerProgramAndOrdered) {
  constexpr std::int64_t kPrograms = 500, kBlock = 64;
  std::vector<Tensor> tensors{
      tensor_of_numbers(DType::i32, {0, -1, 5}), tensor_of_numbers(DType::i32, std::vector<double>(kPrograms, -1)),
      tensor_of_numbers(DType::f32, std::vector<double>(kPrograms * kBlock)), tensor_of_numbers(DType::f32, {0})};
  kernel("ticket_kernel", {kBlock}).run(GetParam(), {kPrograms, 1, 1}, tensors);
  EXPECT_EQ(get(tensors[0], 0), kPrograms);
  EXPECT_EQ(get(tensors[0], 1), kPrograms - 1);
  EXPECT_EQ(get(tensors[0], 2), 5);
  EXPECT_EQ(get(tensors[3], 0), kPrograms * kBlock);
  std::vector<double> order;
  for (std::size_t i = 0; i < kPrograms; ++i) order.push_back(get(tensors[1], i));
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < kPrograms; ++i) ASSERT_EQ(order[i], static_cast<double>(i));
}

INSTANTIATE_TEST_SUITE_P(Devices, Atomic, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Atomic);

TEST(AtomicCompile, EveryTypeOnEveryArchitecture) {
  if (const std::string problem = compiler_problem(DeviceType::cuda); !problem.empty()) GTEST_SKIP() << problem;
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"})
    for (const DType dtype : kDtypes) {
      // The oldest compiles all; the newer ones what they do differently.
      if (std::string(arch) != "sm_80" && dtype != DType::bf16 && dtype != DType::f16) continue;
      SCOPED_TRACE(std::string(arch) + " " + std::string(name(dtype)));
      const CompileRequest request =
          kernel("all_kernel", {dtype, std::int64_t{64}}).request({DeviceType::cuda, arch, ""});
      const PtxasReport report = ptxas_report(request);
      EXPECT_GT(report.registers, 0);
      EXPECT_EQ(report.spill_store_bytes, 0);
    }
}

}  // namespace
}  // namespace kiln::test
