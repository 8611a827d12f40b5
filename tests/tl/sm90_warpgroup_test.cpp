// Named barriers, registers that change hands, and numbers that a warp shares.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/tl/sm90_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kGroupThreads = 128;
constexpr std::int64_t kValues = 200;
constexpr std::int64_t kHandovers = 1001;

constexpr const char* kText = R"(
#include "compiler/tl/cuda/sm90/warpgroup.hpp"
namespace warpgroups {
using namespace kiln::tl;
using namespace kiln::tl::sm90;

template <typename T>
KILN_KERNEL void warps(T* out) {
  out[threadIdx.x] = warp_uniform(static_cast<int>(threadIdx.x) / 32);
}

// The first warpgroup hands a buffer to the second, which hands it back: each says so by arriving, and waits only for
// the other. Within each, a barrier of its own four warps lets threads read what their neighbours wrote.
template <int ROUNDS>
KILN_KERNEL void handover(const uint32_t* x, uint32_t* out) {
  constexpr int N = kWarpgroupThreads, kFull = 15, kEmpty = 1;
  __shared__ uint32_t buffer[N], own[2][N];
  const int group = warp_uniform(static_cast<int>(threadIdx.x) / N), t = threadIdx.x % N, next = (t + 1) % N;
  uint32_t value = group == 0 ? x[t] : 0;
  KILN_NO_UNROLL for (int round = 0; round < ROUNDS; ++round) {
    own[group][t] = value;
    named_sync(2 + group, N);
    value = 3 * value + own[group][next];
    named_sync(2 + group, N);
    if (group == 0) {
      if (round > 0) named_sync(kEmpty, 2 * N);
      buffer[t] = value;
      named_arrive(kFull, 2 * N);
    } else {
      named_sync(kFull, 2 * N);
      value += buffer[next];
      if (round + 1 < ROUNDS) named_arrive(kEmpty, 2 * N);
    }
  }
  out[threadIdx.x] = value;
}

// The last two warpgroups hold VALUES numbers at once, more than a third of the registers gives each thread.
template <int VALUES>
__global__ __launch_bounds__(32 * KILN_NUM_WARPS, 1) void registers(const uint32_t* x, uint32_t* out, int64_t rounds) {
  const int group = warp_uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);
  if (group == 0) {
    give_registers<40>();
    out[threadIdx.x] = x[threadIdx.x];
  } else {
    take_registers<232>();
    uint32_t values[VALUES];
    KILN_UNROLL for (int i = 0; i < VALUES; ++i) values[i] = x[i * kNumThreads + threadIdx.x];
    KILN_NO_UNROLL for (int64_t round = 0; round < rounds; ++round)
      KILN_UNROLL for (int i = 0; i < VALUES; ++i) values[i] = 3 * values[i] + values[(i + 1) % VALUES];
    KILN_UNROLL for (int i = 0; i < VALUES; ++i) out[i * kNumThreads + threadIdx.x] = values[i];
  }
}

}  // namespace warpgroups
)";

TextKernel kernel(const std::string& name, std::int64_t groups, TemplateArgument argument) {
  TextKernel made{"tests/tl/sm90_warpgroup.hpp", kText, "warpgroups::" + name, {argument}};
  made.num_warps = static_cast<std::int32_t>(4 * groups);
  return made;
}

using Sm90Warpgroup = Sm90Test;

TEST_F(Sm90Warpgroup, AWarpSharesItsNumber) {
  std::vector<Tensor> tensors{empty({2 * kGroupThreads}, DType::i32, Device::cpu())};
  kernel("warps", 2, DType::i32).run(Device::cuda(), {1, 1, 1}, tensors);
  for (std::int64_t t = 0; t < 2 * kGroupThreads; ++t) EXPECT_EQ(tensors[0].data_as<std::int32_t>()[t], t / 32);
}

TEST_F(Sm90Warpgroup, NamedBarriersHandABufferBackAndForth) {
  std::array<std::vector<std::uint32_t>, 2> values{random_words(kGroupThreads),
                                                   std::vector<std::uint32_t>(kGroupThreads)};
  std::vector<Tensor> tensors{bits_tensor(values[0]), bits_tensor(std::vector<std::uint32_t>(2 * kGroupThreads))};
  kernel("handover", 2, kHandovers).run(Device::cuda(), {1, 1, 1}, tensors);
  for (std::int64_t round = 0; round < kHandovers; ++round) {
    for (std::vector<std::uint32_t>& group : values) {
      const std::vector<std::uint32_t> before = group;
      for (std::size_t t = 0; t < kGroupThreads; ++t) group[t] = 3 * before[t] + before[(t + 1) % kGroupThreads];
    }
    for (std::size_t t = 0; t < kGroupThreads; ++t) values[1][t] += values[0][(t + 1) % kGroupThreads];
  }
  for (std::size_t t = 0; t < 2 * kGroupThreads; ++t)
    ASSERT_EQ(tensors[1].data_as<std::uint32_t>()[t], values[t / kGroupThreads][t % kGroupThreads]) << t;
}

TEST_F(Sm90Warpgroup, HoldsMoreOnceItHasTakenRegisters) {
  constexpr std::int64_t kRounds = 17;
  constexpr std::size_t kThreads = 3 * kGroupThreads;
  const std::vector<std::uint32_t> x = random_words(kValues * kThreads);
  std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<std::uint32_t>(x.size()))};
  // More blocks than run at once: registers are back where they were when the next block starts.
  kernel("registers", 3, kValues).run(Device::cuda(), {500, 1, 1}, tensors, {kRounds});
  for (std::size_t t = 0; t < kThreads; ++t) {
    std::array<std::uint32_t, kValues> values;
    for (std::size_t i = 0; i < kValues; ++i) values[i] = x[i * kThreads + t];
    for (std::int64_t round = 0; round < kRounds && t >= kGroupThreads; ++round)
      for (std::size_t i = 0; i < kValues; ++i) values[i] = 3 * values[i] + values[(i + 1) % kValues];
    for (std::size_t i = 0; i < (t < kGroupThreads ? 1 : kValues); ++i)
      ASSERT_EQ(tensors[1].data_as<std::uint32_t>()[i * kThreads + t], values[i]) << "thread " << t << ", value " << i;
  }
}

TEST(Sm90WarpgroupCode, StaysInRegisters) {
  expect_compiled_to_registers(
      {kernel("warps", 2, DType::i32), kernel("handover", 2, kHandovers), kernel("registers", 3, kValues)});
}

}  // namespace
}  // namespace kiln::test
