// Barriers of threads and of bytes over many phases, and the positions of their rings.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tl/sm90_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kThreads = 128;
constexpr std::int64_t kRounds = 101;
constexpr std::int64_t kRings[] = {1, 2, 3, 4, 7};

constexpr const char* kText = R"(
#include "compiler/tl/cuda/sm90/barrier.hpp"
#include "compiler/tl/cuda/sm90/cluster.hpp"
namespace barriers {
using namespace kiln::tl;
using namespace kiln::tl::sm90;

KILN_DEVICE void start(Barrier barrier, uint32_t arrivals) {
  if (threadIdx.x == 0) {
    barrier.init(arrivals);
    barriers_ready();
  }
  __syncthreads();
}
// A barrier of all threads: each round a thread adds what its neighbour has come to.
template <int ROUNDS>
KILN_KERNEL void neighbours(const uint32_t* x, uint32_t* out) {
  __shared__ uint32_t values[2][kNumThreads];
  __shared__ uint64_t word;
  const Barrier barrier{shared_address(&word)};
  start(barrier, kNumThreads);
  const int t = threadIdx.x;
  uint32_t value = x[t];
  KILN_NO_UNROLL for (int round = 0; round < ROUNDS; ++round) {
    const uint32_t parity = round & 1;
    values[parity][t] = value;
    barrier.arrive();
    barrier.wait(parity);
    value = 3 * value + values[parity][(t + 1) % kNumThreads];
  }
  out[t] = value;
}

// Two threads announce half of the bytes each; those of the second half are sent long after both have arrived, so a
// phase that ended by arrivals alone would show what the round before left. A block sends to itself, which takes a
// cluster all the same.
template <int ROUNDS>
__global__ __launch_bounds__(32 * KILN_NUM_WARPS) __cluster_dims__(2) void bytes(const uint4* x, uint4* out) {
  constexpr int N = kNumThreads;
  __shared__ uint4 values[N];
  __shared__ uint64_t word;
  const Barrier barrier{shared_address(&word)};
  start(barrier, 2);
  const int t = threadIdx.x;
  x += blockIdx.x * ROUNDS * N;
  out += blockIdx.x * ROUNDS * N;
  KILN_NO_UNROLL for (int round = 0; round < ROUNDS; ++round) {
    if (t % (N / 2) == 0) barrier.arrive_and_expect(sizeof values / 2);
    if (t >= N / 2) __nanosleep(2000);
    send_to_block(shared_address(values + t), x[round * N + t], barrier, cluster_rank());
    barrier.wait(round & 1);
    out[round * N + t] = values[N - 1 - t];
    __syncthreads();
  }
}

// One thread hands numbers to three warps through a ring; every reader makes its own checksum of all of them.
template <int STAGES>
KILN_KERNEL void ring(const uint32_t* x, uint32_t* out, int64_t count) {
  __shared__ uint32_t values[STAGES];
  __shared__ __align__(8) unsigned char words[2 * STAGES * Barrier::kBytes];
  const auto full = [&](uint32_t slot) { return Barrier{shared_address(words) + slot * Barrier::kBytes}; };
  const auto empty = [&](uint32_t slot) { return full(STAGES + slot); };
  const int t = threadIdx.x;
  if (t < STAGES) {
    full(t).init(1);
    empty(t).init(kNumThreads - 32);
    barriers_ready();
  }
  __syncthreads();
  RingPosition<STAGES> at;
  uint32_t checksum = t;
  if (t == 0) {
    for (int64_t i = 0; i < count; ++i, at.advance()) {
      empty(at.slot).wait(at.parity ^ 1);
      values[at.slot] = x[i];
      full(at.slot).arrive();
    }
  } else if (t >= 32) {
    for (int64_t i = 0; i < count; ++i, at.advance()) {
      full(at.slot).wait(at.parity);
      checksum = checksum * 31 + values[at.slot];
      empty(at.slot).arrive();
    }
  }
  out[t] = checksum;
}

// Thread t at position t: by single steps, in one, and in two. slot * 2 + parity.
template <int STAGES>
KILN_KERNEL void positions(uint32_t* out) {
  const uint32_t t = threadIdx.x;
  RingPosition<STAGES> single, whole, parts;
  for (uint32_t i = 0; i < t; ++i) single.advance();
  whole.advance(t);
  parts.advance(t / 3);
  parts.advance(t - t / 3);
  out[t] = single.slot * 2 + single.parity;
  out[kNumThreads + t] = whole.slot * 2 + whole.parity;
  out[2 * kNumThreads + t] = parts.slot * 2 + parts.parity;
}

}  // namespace barriers
)";

TextKernel kernel(const std::string& name, std::int64_t argument) {
  return {"tests/tl/sm90_barrier.hpp", kText, "barriers::" + name, {argument}};
}

using Sm90Barrier = Sm90Test;

TEST_F(Sm90Barrier, ThreadsSeeWhatWasWrittenBeforeAnArrivalOverManyPhases) {
  std::vector<std::uint32_t> values = random_words(kThreads);
  std::vector<Tensor> tensors{bits_tensor(values), bits_tensor(std::vector<std::uint32_t>(kThreads))};
  kernel("neighbours", kRounds).run(Device::cuda(), {1, 1, 1}, tensors);
  for (std::int64_t round = 0; round < kRounds; ++round) {
    const std::vector<std::uint32_t> before = values;
    for (std::size_t t = 0; t < kThreads; ++t) values[t] = 3 * before[t] + before[(t + 1) % kThreads];
  }
  EXPECT_EQ(values_of<std::uint32_t>(tensors[1]), values);
}

TEST_F(Sm90Barrier, PhasesEndOnceAllAnnouncedBytesHaveCome) {
  constexpr std::int64_t kWords = 4, kBlocks = 2;
  const std::vector<std::uint32_t> x = random_words(kBlocks * kRounds * kThreads * kWords);
  std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<std::uint32_t>(x.size()))};
  kernel("bytes", kRounds).run(Device::cuda(), {kBlocks, 1, 1}, tensors);
  for (std::int64_t i = 0; i < tensors[1].numel(); ++i) {
    const std::int64_t round = i / kWords / kThreads, from = kThreads - 1 - i / kWords % kThreads;
    ASSERT_EQ(tensors[1].data_as<std::uint32_t>()[i],
              x[static_cast<std::size_t>((round * kThreads + from) * kWords + i % kWords)])
        << "round " << round << ", of thread " << from;
  }
}

TEST_F(Sm90Barrier, RingsHandOverEveryValueInOrder) {
  const std::vector<std::uint32_t> x = random_words(1000);
  for (const std::int64_t stages : kRings) {
    std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<std::uint32_t>(kThreads))};
    kernel("ring", stages).run(Device::cuda(), {1, 1, 1}, tensors, {static_cast<std::int64_t>(x.size())});
    for (std::uint32_t t = 32; t < kThreads; ++t) {
      std::uint32_t checksum = t;
      for (const std::uint32_t value : x) checksum = checksum * 31 + value;
      EXPECT_EQ(tensors[1].data_as<std::uint32_t>()[t], checksum) << "thread " << t << ", stages " << stages;
    }
  }
}

TEST_F(Sm90Barrier, PositionsGoRoundAndChangeParity) {
  for (const std::int64_t stages : kRings) {
    std::vector<Tensor> tensors{bits_tensor(std::vector<std::uint32_t>(3 * kThreads))};
    kernel("positions", stages).run(Device::cuda(), {1, 1, 1}, tensors);
    for (std::int64_t i = 0; i < 3 * kThreads; ++i) {
      const std::int64_t steps = i % kThreads;
      EXPECT_EQ(tensors[0].data_as<std::uint32_t>()[i], steps % stages * 2 + steps / stages % 2)
          << steps << " steps in a ring of " << stages << ", way " << i / kThreads;
    }
  }
}

TEST(Sm90BarrierCode, StaysInRegisters) {
  std::vector<TextKernel> kernels{kernel("neighbours", kRounds), kernel("bytes", kRounds)};
  for (const std::int64_t stages : kRings)
    for (const char* name : {"ring", "positions"}) kernels.push_back(kernel(name, stages));
  expect_compiled_to_registers(kernels);
}

}  // namespace
}  // namespace kiln::test
