// Where elements of tiles lie in shared memory: each in a place of its own, as wgmma and the copy engine know it, and
// read without bank conflicts.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "compiler/tl/cuda/mma_places.hpp"

namespace kiln::test {
namespace {

TEST(PipelinePlaces, AreAllDifferentAndDisjointBitsAdd) {
  std::set<unsigned int> offsets;
  constexpr unsigned int kChunks = 4096;
  for (unsigned int chunk = 0; chunk < kChunks; ++chunk) {
    offsets.insert(tl::SharedPlaces::offset(chunk));
    EXPECT_EQ(tl::SharedPlaces::offset(chunk) / tl::SharedPlaces::kLineBytes, chunk / 8);
    const unsigned int low = chunk & 0x2d5, high = chunk & ~0x2d5u;
    EXPECT_EQ(tl::SharedPlaces::offset(low) ^ tl::SharedPlaces::offset(high), tl::SharedPlaces::offset(chunk));
  }
  EXPECT_EQ(offsets.size(), kChunks);
  EXPECT_EQ(tl::pipeline_shared_bytes(3, tl::shared_tile_bytes(128, 32, 2), tl::shared_tile_bytes(32, 16, 1)),
            3 * (8192 + 1024));
}

/// As PTX draws the swizzles of 128, 64 and 32 bytes: bits 4 to 6 of an address change by bits 7 to 9. Panels are as
/// wide as those of which some make a line.
template <int kLines, int kChunksPerLine>
void expect_panels() {
  SCOPED_TRACE(::testing::Message() << kLines << " lines of " << kChunksPerLine << " chunks");
  using Places = tl::PanelPlaces<kLines, kChunksPerLine>;
  const unsigned int panel_chunks = std::gcd(kChunksPerLine, 8), line_bytes = panel_chunks * 16;
  std::set<unsigned int> offsets;
  for (unsigned int line = 0; line < kLines; ++line)
    for (unsigned int chunk = 0; chunk < kChunksPerLine; ++chunk) {
      const unsigned int plain = line * line_bytes + chunk % panel_chunks * 16;
      const unsigned int mask = (panel_chunks - 1) << 4;
      const unsigned int number = line * kChunksPerLine + chunk, offset = Places::offset(number);
      EXPECT_EQ(offset, chunk / panel_chunks * kLines * line_bytes + (plain ^ (plain >> 3 & mask)));
      if (std::has_single_bit(static_cast<unsigned int>(kChunksPerLine))) {
        EXPECT_EQ(Places::offset(number & 0x155) ^ Places::offset(number & ~0x155u), offset);
      }
      offsets.insert(offset);
    }
  EXPECT_EQ(offsets.size(), static_cast<std::size_t>(kLines * kChunksPerLine));
  EXPECT_EQ(*offsets.rbegin() + 16, static_cast<unsigned int>(kLines * kChunksPerLine * 16));
}
TEST(PipelinePlaces, PanelsAreSwizzledAsWgmmaReadsThem) {
  expect_panels<64, 8>();
  expect_panels<128, 16>();
  expect_panels<32, 32>();
  expect_panels<64, 4>();
  expect_panels<16, 2>();
  expect_panels<48, 8>();
  expect_panels<64, 12>();
  expect_panels<96, 20>();
  expect_panels<48, 22>();
  expect_panels<32, 6>();
}

/// The most words of one bank that accesses of `bytes` at these offsets touch.
int passes(const std::vector<unsigned int>& offsets, unsigned int bytes) {
  std::vector<std::set<unsigned int>> words(32);
  for (const unsigned int offset : offsets)
    for (unsigned int byte = 0; byte < bytes; byte += 4) words[(offset + byte) / 4 % 32].insert((offset + byte) / 4);
  std::size_t most = 0;
  for (const auto& bank : words) most = std::max(most, bank.size());
  return static_cast<int>(most);
}

/// Turned copies: a warp writes four neighbouring floats of eight lines. Reads and copies that are not turned name
/// whole pieces of a line.
template <int kLineElements>
void expect_padding_to_part_lines() {
  SCOPED_TRACE(::testing::Message() << kLineElements << " floats to a line");
  constexpr unsigned int kChunks = kLineElements / 4;
  using Places = tl::PaddedPlaces<kChunks>;
  for (unsigned int chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<unsigned int> offsets;
    for (unsigned int line = 0; line < 8; ++line) offsets.push_back(Places::offset(line * kChunks + chunk));
    EXPECT_EQ(passes(offsets, 16), 1) << "chunk " << chunk;
  }
  std::set<unsigned int> all;
  for (unsigned int chunk = 0; chunk < 16 * kChunks; ++chunk) {
    all.insert(Places::offset(chunk));
    EXPECT_EQ(Places::offset(chunk & 0x2d5) + Places::offset(chunk & ~0x2d5u), Places::offset(chunk));
  }
  EXPECT_EQ(all.size(), 16 * kChunks);
  EXPECT_LE(*all.rbegin() + 16, static_cast<unsigned int>(tl::padded_tile_bytes(16, kLineElements)));
  EXPECT_EQ(tl::padded_tile_bytes(16, kLineElements) % tl::SharedPlaces::kLineBytes, 0);
}
TEST(PipelinePlaces, PaddedLinesOfOnePlaceAreInDifferentBanks) {
  expect_padding_to_part_lines<16>();
  expect_padding_to_part_lines<32>();
  expect_padding_to_part_lines<64>();
  expect_padding_to_part_lines<128>();
  expect_padding_to_part_lines<256>();
}

/// Reads of fragments: ldmatrix takes eight lanes' rows at once, other reads a whole warp's words.
template <int kElementBytes, bool kOfB, int kOuter, int kInner, bool kAlongK>
void expect_no_conflicts() {
  SCOPED_TRACE(::testing::Message() << kElementBytes << " bytes, " << kOuter << " by " << kInner << " of K, along K "
                                    << kAlongK);
  using Fragments = tl::FragmentPlaces<kElementBytes, kOfB, kOuter, kInner, kAlongK>;
  if (Fragments::kMatrices) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::vector<unsigned int> offsets;
      for (int row = 0; row < 8; ++row)
        offsets.push_back(tl::SharedPlaces::offset(Fragments::lane_chunk(8 * matrix + row)));
      EXPECT_EQ(passes(offsets, 16), 1) << "matrix " << matrix;
    }
  } else {
    std::vector<unsigned int> offsets;
    for (int lane = 0; lane < 32; ++lane)
      offsets.push_back(tl::SharedPlaces::offset(Fragments::lane_chunk(lane)) +
                        static_cast<unsigned int>(lane / 4 % Fragments::kPerChunk * kElementBytes));
    EXPECT_EQ(passes(offsets, kElementBytes), 1);
  }
}

template <int kElementBytes, int kOuter, int kInner, bool kAlongK>
void expect_no_conflicts_of_either() {
  expect_no_conflicts<kElementBytes, false, kOuter, kInner, kAlongK>();
  expect_no_conflicts<kElementBytes, true, kOuter, kInner, kAlongK>();
}

TEST(PipelinePlaces, FragmentsAreReadWithoutBankConflicts) {
  expect_no_conflicts_of_either<2, 128, 16, true>();
  expect_no_conflicts_of_either<2, 128, 32, true>();
  expect_no_conflicts_of_either<2, 128, 64, true>();
  expect_no_conflicts_of_either<2, 64, 128, true>();
  expect_no_conflicts_of_either<2, 64, 256, true>();
  expect_no_conflicts_of_either<2, 32, 32, false>();
  expect_no_conflicts_of_either<2, 64, 32, false>();
  expect_no_conflicts_of_either<2, 128, 32, false>();
  expect_no_conflicts_of_either<2, 256, 32, false>();
  expect_no_conflicts_of_either<4, 128, 16, true>();
  expect_no_conflicts_of_either<4, 128, 32, true>();
  expect_no_conflicts_of_either<4, 128, 64, true>();
  expect_no_conflicts_of_either<4, 64, 32, false>();
  expect_no_conflicts_of_either<4, 128, 32, false>();
  expect_no_conflicts_of_either<4, 256, 32, false>();
  expect_no_conflicts_of_either<1, 128, 32, true>();
  expect_no_conflicts_of_either<1, 128, 64, true>();
  expect_no_conflicts_of_either<1, 128, 128, true>();
  expect_no_conflicts_of_either<1, 64, 256, true>();
  expect_no_conflicts_of_either<1, 128, 64, false>();
  expect_no_conflicts_of_either<1, 256, 64, false>();
}

}  // namespace
}  // namespace kiln::test
