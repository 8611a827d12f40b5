#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

/// Runs j: out[o + i] = x[f + i] + 3 for i below n, where f, o, n = runs[3 * j ...].
template <typename T, int BLOCK_SIZE, int IN_FLIGHT>
KILN_KERNEL void cover_kernel(const T* x, T* out, const int64_t* runs) {
  const int64_t* const run = runs + 3 * tl::program_id(1);
  const T* const from = x + tl::load(run);
  T* const to = out + tl::load(run + 1);
  tl::cover<BLOCK_SIZE, IN_FLIGHT>(
      tl::program_id(0), tl::load(run + 2),
      [&](const auto& offsets, const auto& mask) { tl::store(to + offsets, tl::load(from + offsets, mask) + 3, mask); },
      from, to);
}

/// x *= 2, in place.
template <typename T, int BLOCK_SIZE, int IN_FLIGHT>
KILN_KERNEL void double_kernel(T* x, int64_t offset, int64_t n) {
  T* const at = x + offset;
  tl::cover<BLOCK_SIZE, IN_FLIGHT>(
      tl::program_id(0), n,
      [&](const auto& offsets, const auto& mask) { tl::store(at + offsets, tl::load(at + offsets, mask) * 2, mask); },
      at);
}
)";

struct Case {
  std::int64_t block_size, in_flight;
  std::int32_t num_warps;
};
/// Usual blocks, one element a thread, fewer elements than threads.
constexpr Case kCases[] = {{512, 4, 2}, {512, 1, 2}, {128, 4, 4}, {64, 4, 4}};

template <typename T>
class CoverOf : public ::testing::Test {};
using Types = ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(CoverOf, Types);

TYPED_TEST(CoverOf, EveryElementAndNoOther) {
  using T = TypeParam;
  for (const Device device : devices_with_compilers())
    for (const Case& config : kCases) {
      // Each run writes to a part of `out` of its own, with elements between that nobody writes.
      const std::int64_t longest = 3 * config.block_size + 17, part = 4 * config.block_size + 128;
      std::vector<std::int64_t> runs;
      std::vector<T> x(static_cast<std::size_t>(longest + 16)), expected;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 7);
      for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, config.block_size - 1, config.block_size, longest})
        for (const auto& [from, to] : {std::pair{0, 0}, {1, 1}, {1, 0}, {0, 3}, {16, 32}}) {
          const auto begin = static_cast<std::int64_t>(expected.size()) + to;
          runs.insert(runs.end(), {from, begin, n});
          expected.resize(expected.size() + static_cast<std::size_t>(part), T(77));
          for (std::int64_t i = 0; i < n; ++i)
            expected[static_cast<std::size_t>(begin + i)] = static_cast<T>(x[static_cast<std::size_t>(from + i)] + 3);
        }
      std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<T>(expected.size(), T(77))),
                                  empty({static_cast<std::int64_t>(runs.size())}, DType::i64, Device::cpu())};
      std::copy(runs.begin(), runs.end(), static_cast<std::int64_t*>(tensors[2].data()));
      TextKernel{"cover.hpp",
                 kKernels,
                 "cover_kernel",
                 {unsigned_dtype(sizeof(T)), config.block_size, config.in_flight},
                 config.num_warps}
          .run(device, {4, static_cast<std::int64_t>(runs.size() / 3), 1}, tensors);
      const T* const got = static_cast<const T*>(tensors[1].data());
      const auto [wrong, wanted] = std::mismatch(got, got + expected.size(), expected.begin());
      EXPECT_EQ(wanted, expected.end()) << to_string(device) << ", BLOCK_SIZE=" << config.block_size << ": run "
                                        << (wrong - got) / part << ", element " << (wrong - got) % part
                                        << " of its part";
    }
}

TYPED_TEST(CoverOf, InPlaceTouchesEachElementOnce) {
  using T = TypeParam;
  for (const Device device : devices_with_compilers())
    for (const Case& config : kCases)
      for (const std::int64_t offset : {0, 1}) {
        const std::int64_t n = 5 * config.block_size - 3;
        std::vector<T> x(static_cast<std::size_t>(offset + n), T(5));
        std::vector<Tensor> tensors{bits_tensor(x)};
        TextKernel{"cover.hpp",
                   kKernels,
                   "double_kernel",
                   {unsigned_dtype(sizeof(T)), config.block_size, config.in_flight},
                   config.num_warps}
            .run(device, {5, 1, 1}, tensors, {offset, n});
        std::fill(x.begin() + offset, x.end(), T(10));
        EXPECT_TRUE(std::equal(x.begin(), x.end(), static_cast<const T*>(tensors[0].data())))
            << to_string(device) << ", BLOCK_SIZE=" << config.block_size << ", from element " << offset;
      }
}

}  // namespace
}  // namespace kiln::test
