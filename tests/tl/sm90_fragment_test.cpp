// Operands that lie along m, loaded to registers as products take them.

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/tl/sm90_test.hpp"

namespace kiln::test {
namespace {

constexpr int kFragmentThreads = 128, kRowBlocks = 2, kFragmentSteps = 4, kWords = 4;
constexpr int kRowsOfBlock = 64, kBytesOfK = 128;

constexpr const char* kFragmentText = R"(
#include "compiler/tl/cuda/sm90/fragment.hpp"
namespace fragments {
using namespace kiln::tl;
using namespace kiln::tl::sm90;

// `words` has what all threads hold of a word, for each word of each step of each row block.
// STARTS_EACH: every row block is a thread's first.
template <typename T, int PANEL_ELEMENTS, int ROW_BLOCKS, bool STARTS_EACH>
KILN_KERNEL void load(const uint4* panels, uint32_t* words, int32_t* rows) {
  using F = Fragment<T, PANEL_ELEMENTS>;
  __shared__ __align__(1024) unsigned char shared[ROW_BLOCKS * F::kRowBlockBytes];
  const uint32_t address = shared_address(shared);
  // As the copy engine's swizzle of rows of so many bytes has them.
  constexpr int kMask = F::kPanelRowBytes / 16 - 1;
  for (int i = threadIdx.x; i < ROW_BLOCKS * F::kRowBlockBytes / 16; i += kNumThreads)
    put_shared(address + ((i ^ (i / 8 & kMask)) << 4), panels[i]);
  __syncthreads();
  rows[threadIdx.x] = F::row(threadIdx.x);
  KILN_UNROLL for (int block = 0; block < ROW_BLOCKS; ++block) KILN_UNROLL for (int step = 0; step < 4; ++step) {
    uint32_t a[4];
    F(threadIdx.x, STARTS_EACH ? block : 0).load(address, STARTS_EACH ? 0 : block, step, a);
    KILN_UNROLL for (int i = 0; i < 4; ++i) words[((block * 4 + step) * 4 + i) * kNumThreads + threadIdx.x] = a[i];
  }
}

}  // namespace fragments
)";

struct FragmentCase {
  DType dtype;
  int panel;  ///< elements
  bool starts_each = false;
};
const std::vector<FragmentCase> kFragmentCases = {
    {DType::f32, 32},      {DType::i8, 64},        {DType::fp8e4m3, 64},       {DType::i8, 128},
    {DType::fp8e4m3, 128}, {DType::f32, 32, true}, {DType::fp8e4m3, 64, true}, {DType::fp8e4m3, 128, true}};

TextKernel load_kernel(const FragmentCase& c) {
  return {"tests/tl/sm90_fragment.hpp",
          kFragmentText,
          "fragments::load",
          {c.dtype, std::int64_t{c.panel}, std::int64_t{kRowBlocks}, c.starts_each}};
}

class Sm90Fragment : public Sm90Test {};

TEST_F(Sm90Fragment, EveryRowIsLoadedOnceAsProductsTakeIt) {
  std::mt19937 random(20261122);
  for (const FragmentCase& c : kFragmentCases) {
    SCOPED_TRACE(std::string(name(c.dtype)) + ", panels of " + std::to_string(c.panel));
    const int size = static_cast<int>(itemsize_bytes(c.dtype)), panel = c.panel, in_word = 4 / size;
    std::vector<std::uint8_t> panels(kRowBlocks * kRowsOfBlock * kBytesOfK);
    for (std::uint8_t& byte : panels) byte = static_cast<std::uint8_t>(random());
    std::vector<Tensor> tensors{
        bits_tensor(panels),
        bits_tensor(std::vector<std::int32_t>(kRowBlocks * kFragmentSteps * kWords * kFragmentThreads)),
        bits_tensor(std::vector<std::int32_t>(kFragmentThreads))};
    load_kernel(c).run(Device::cuda(), {1, 1, 1}, tensors);
    const auto* words = tensors[1].data_as<std::int32_t>();
    const auto* rows = tensors[2].data_as<std::int32_t>();

    std::vector<int> holders(kRowsOfBlock);
    for (int thread = 0; thread < kFragmentThreads; ++thread)
      for (int half = 0; half < 2; ++half) ++holders.at(static_cast<std::size_t>(rows[thread] + half));
    EXPECT_EQ(holders, std::vector<int>(kRowsOfBlock, 4));

    for (int block = 0; block < kRowBlocks; ++block)
      for (int step = 0; step < kFragmentSteps; ++step)
        for (int i = 0; i < kWords; ++i)
          for (int thread = 0; thread < kFragmentThreads; ++thread) {
            // All lanes of a quad hold one row.
            EXPECT_EQ(rows[thread], rows[thread / 4 * 4]);
            const int m = block * kRowsOfBlock + rows[thread] + i % 2;
            const int k = (step * 8 + i / 2 * 4 + thread % 4) * in_word;
            std::uint8_t expected[4];
            for (int j = 0; j < in_word; ++j)
              std::memcpy(&expected[j * size],
                          &panels[static_cast<std::size_t>(
                              ((m / panel * (kBytesOfK / size) + k + j) * panel + m % panel) * size)],
                          static_cast<std::size_t>(size));
            ASSERT_EQ(words[((block * kFragmentSteps + step) * kWords + i) * kFragmentThreads + thread],
                      __builtin_bit_cast(std::int32_t, expected))
                << "row block " << block << ", step " << step << ", word " << i << ", thread " << thread;
          }
  }
}

TEST(Sm90FragmentCode, StaysInRegisters) {
  std::vector<TextKernel> kernels;
  for (const FragmentCase& c : kFragmentCases) kernels.push_back(load_kernel(c));
  expect_compiled_to_registers(kernels);
}

}  // namespace
}  // namespace kiln::test
