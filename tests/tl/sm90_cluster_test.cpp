// Blocks of a cluster: their numbers, meeting, and reaching each other's shared memory.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/tl/sm90_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kThreads = 32;
constexpr std::int64_t kClusters = 3;
constexpr std::int64_t kClusterSizes[] = {2, 4, 8};

constexpr const char* kText = R"(
#include "compiler/tl/cuda/sm90/barrier.hpp"
#define CLUSTER_KERNEL __global__ __launch_bounds__(32 * KILN_NUM_WARPS) __cluster_dims__(BLOCKS)
namespace clusters {
using namespace kiln::tl;
using namespace kiln::tl::sm90;

template <int BLOCKS>
CLUSTER_KERNEL void ranks(uint32_t* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = cluster_rank();
}

// Counts are what a block sees of its cluster's counter once all have come: its own part of it would be too little. The
// blocks come at very different times. The order of memory is by fences here: cluster_meet has none.
template <int BLOCKS>
CLUSTER_KERNEL void meetings(uint32_t* counters, uint32_t* out, int64_t rounds) {
  uint32_t* const counter = counters + blockIdx.x / BLOCKS;
  for (int64_t round = 0; round < rounds; ++round) {
    if (cluster_rank() == round % BLOCKS) __nanosleep(3000);
    if (threadIdx.x == 0) atomicAdd(counter, 1);
    __threadfence();
    __syncwarp();
    cluster_meet();
    __threadfence();
    if (threadIdx.x == 0) out[round * gridDim.x + blockIdx.x] = atomicAdd(counter, 0);
    __syncwarp();
    cluster_meet();
  }
}

// Each round, every thread sends 16 bytes of its own to its counterpart in every block. A slot holds a round's bytes,
// and is sent to once all its readers, which are in all blocks, have arrived at the sender's barrier.
// x[round][from][to][thread], out[round][to][from][thread], of each cluster.
template <int BLOCKS>
CLUSTER_KERNEL void exchange(const uint4* x, uint4* out, int64_t rounds) {
  constexpr int N = kNumThreads, kSlots = 2;
  __shared__ uint4 slots[kSlots][BLOCKS][N];
  __shared__ __align__(8) unsigned char words[2 * kSlots * Barrier::kBytes];
  const int t = threadIdx.x;
  const uint32_t rank = cluster_rank();
  const auto filled = [&](uint32_t slot) { return Barrier{shared_address(words) + slot * Barrier::kBytes}; };
  const auto emptied = [&](uint32_t slot) { return filled(kSlots + slot); };
  if (t == 0) {
    for (int slot = 0; slot < kSlots; ++slot) {
      filled(slot).init(1);
      emptied(slot).init(BLOCKS);
    }
    barriers_ready();
  }
  __syncwarp();
  cluster_meet();
  x += blockIdx.x / BLOCKS * rounds * BLOCKS * BLOCKS * N;
  out += blockIdx.x / BLOCKS * rounds * BLOCKS * BLOCKS * N;
  RingPosition<kSlots> at;
  for (int64_t round = 0; round < rounds; ++round, at.advance()) {
    if (t == 0) filled(at.slot).arrive_and_expect(sizeof slots[0]);
    emptied(at.slot).wait(at.parity ^ 1);
    for (int to = 0; to < BLOCKS; ++to)
      send_to_block(shared_address(&slots[at.slot][rank][t]), x[((round * BLOCKS + rank) * BLOCKS + to) * N + t],
                    filled(at.slot), to);
    filled(at.slot).wait(at.parity);
    for (int from = 0; from < BLOCKS; ++from)
      out[((round * BLOCKS + rank) * BLOCKS + from) * N + t] = slots[at.slot][from][N - 1 - t];
    __syncthreads();
    if (t < BLOCKS) emptied(at.slot).arrive_in_block(t);
  }
  // A block stays until all that others send here has come.
  for (int slot = 0; slot < kSlots; ++slot, at.advance()) emptied(at.slot).wait(at.parity ^ 1);
}

}  // namespace clusters
)";

TextKernel kernel(const std::string& name, std::int64_t blocks) {
  TextKernel made{"tests/tl/sm90_cluster.hpp", kText, "clusters::" + name, {blocks}};
  made.num_warps = kThreads / 32;
  return made;
}

class Sm90Cluster : public Sm90Test {};

TEST_F(Sm90Cluster, BlocksAreNumberedWithinTheirs) {
  for (const std::int64_t blocks : kClusterSizes) {
    std::vector<Tensor> tensors{bits_tensor(std::vector<std::uint32_t>(static_cast<std::size_t>(kClusters * blocks)))};
    kernel("ranks", blocks).run(Device::cuda(), {kClusters * blocks, 1, 1}, tensors);
    for (std::int64_t block = 0; block < kClusters * blocks; ++block)
      EXPECT_EQ(tensors[0].data_as<std::uint32_t>()[block], block % blocks) << block << " of clusters of " << blocks;
  }
}

TEST_F(Sm90Cluster, NoneGoesOnBeforeAllHaveMet) {
  constexpr std::int64_t kRounds = 16;
  for (const std::int64_t blocks : kClusterSizes) {
    const std::int64_t grid = kClusters * blocks;
    std::vector<Tensor> tensors{bits_tensor(std::vector<std::uint32_t>(kClusters)),
                                bits_tensor(std::vector<std::uint32_t>(static_cast<std::size_t>(kRounds * grid)))};
    kernel("meetings", blocks).run(Device::cuda(), {grid, 1, 1}, tensors, {kRounds});
    for (std::int64_t i = 0; i < kRounds * grid; ++i)
      EXPECT_EQ(tensors[1].data_as<std::uint32_t>()[i], (i / grid + 1) * blocks) << i << " of clusters of " << blocks;
  }
}

// By address_in_block, arrive_in_block and send_to_block: phases of both parities, several of each.
TEST_F(Sm90Cluster, BytesArriveInTheBlockTheyAreSentTo) {
  constexpr std::int64_t kRounds = 9, kWords = 4;
  std::mt19937 random{20261120};
  for (const std::int64_t blocks : kClusterSizes) {
    SCOPED_TRACE(blocks);
    std::vector<std::uint32_t> x(static_cast<std::size_t>(kClusters * kRounds * blocks * blocks * kThreads * kWords));
    for (std::uint32_t& word : x) word = static_cast<std::uint32_t>(random());
    std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<std::uint32_t>(x.size()))};
    kernel("exchange", blocks).run(Device::cuda(), {kClusters * blocks, 1, 1}, tensors, {kRounds});
    const auto place = [&](std::int64_t round, std::int64_t first, std::int64_t second, std::int64_t thread) {
      return ((round * blocks + first) * blocks + second) * kThreads + thread;
    };
    const std::uint32_t* const out = tensors[1].data_as<std::uint32_t>();
    for (std::int64_t round = 0; round < kClusters * kRounds; ++round)
      for (std::int64_t to = 0; to < blocks; ++to)
        for (std::int64_t from = 0; from < blocks; ++from)
          for (std::int64_t thread = 0; thread < kThreads; ++thread)
            for (std::int64_t word = 0; word < kWords; ++word)
              ASSERT_EQ(out[place(round, to, from, thread) * kWords + word],
                        x[static_cast<std::size_t>(place(round, from, to, kThreads - 1 - thread) * kWords + word)])
                  << "round " << round << ", from " << from << " to " << to << ", thread " << thread;
  }
}

TEST(Sm90ClusterCode, StaysInRegisters) {
  std::vector<TextKernel> kernels;
  for (const std::int64_t blocks : kClusterSizes)
    for (const char* name : {"ranks", "meetings", "exchange"}) kernels.push_back(kernel(name, blocks));
  expect_compiled_to_registers(kernels);
}

}  // namespace
}  // namespace kiln::test
