// How operands whose lines lie across K come to lie along it, without a GPU: by an emulation of ldmatrix, byte
// permutations, stmatrix, and of how wgmma reads what its descriptors name.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "compiler/tl/cuda/pipeline_places.hpp"
#include "compiler/tl/cuda/turn_places.hpp"

namespace kiln::test {
namespace {

using Memory = std::vector<std::uint8_t>;

std::uint32_t word_at(const Memory& memory, unsigned int byte) {
  std::uint32_t word = 0;
  std::memcpy(&word, &memory[byte], sizeof word);
  return word;
}

/// That accesses of `bytes` at these offsets are in different banks.
void expect_all_banks(const std::vector<unsigned int>& offsets, unsigned int bytes) {
  std::set<unsigned int> banks;
  for (const unsigned int offset : offsets)
    for (unsigned int byte = 0; byte < bytes; byte += 4) banks.insert((offset + byte) / 4 % 32);
  EXPECT_EQ(banks.size(), offsets.size() * bytes / 4);
}

/// One tile of kOuter by kK elements, all of it turned in place order of TileTurn by kWarps warps, kPartK of K at a
/// time, into places of kPlaceK.
template <int kBytes, int kOuter, int kK, int kPlaceK, int kPartK, int kWarps>
class Turned {
 public:
  using Turn = tl::TurnPlaces<kBytes, kOuter>;
  static constexpr int kPerChunk = 16 / kBytes;
  using From = tl::PanelPlaces<kK, kOuter / kPerChunk>;
  using To = tl::PanelPlaces<kOuter, kPlaceK / kPerChunk>;
  static constexpr int kOuterBlocks = kOuter / Turn::kOuter;

  Turned() : from_(kOuter * kK * kBytes), to_(kOuter * kPlaceK * kBytes) {
    for (int k = 0; k < kK; ++k)
      for (int outer = 0; outer < kOuter; ++outer)
        put(from_, From::offset(from_chunk(k, outer)) + outer % kPerChunk * kBytes, number(outer, k));
  }

  void expect() {
    for (int first = 0; first < kK; first += kPartK) {
      for (int warp = 0; warp < kWarps; ++warp) turn(warp, first);
      for (int k = first; k < first + kPartK; k += 32 / kBytes) expect_step(k);
    }
  }

 private:
  static unsigned int from_chunk(int k, int outer) {
    return static_cast<unsigned int>(k * (kOuter / kPerChunk) + outer / kPerChunk);
  }
  static unsigned int to_chunk(int outer, int k) {
    return static_cast<unsigned int>(outer * (kPlaceK / kPerChunk) + k / kPerChunk);
  }
  /// As SharedTile has it.
  static unsigned int moved(unsigned int lane_address, unsigned int offset) {
    return (lane_address ^ (offset & 127)) + (offset & ~127u);
  }
  static std::uint32_t number(int outer, int k) {
    const auto all = static_cast<std::uint32_t>(outer * 977 + k * 131 + 5);
    return kBytes == 1 ? (all ^ all >> 8) & 0xff : all;
  }
  static void put(Memory& memory, unsigned int at, std::uint32_t value) { std::memcpy(&memory[at], &value, kBytes); }

  void turn(int warp, int first) {
    constexpr int kBlocks = kOuterBlocks * (kPartK / Turn::kK), kRounds = std::max(1, kBlocks / kWarps);
    if (warp >= kBlocks) return;
    const int outer = warp % kOuterBlocks * Turn::kOuter, k = warp / kOuterBlocks * Turn::kK;
    for (int round = 0; round < kRounds; ++round) {
      const int round_outer = round * kWarps % kOuterBlocks * Turn::kOuter;
      const int round_k = round * kWarps / kOuterBlocks * Turn::kK;
      std::uint32_t words[32][4];
      if constexpr (kBytes == 1) {
        std::vector<unsigned int> rows;
        for (int lane = 0; lane < 32; ++lane)
          rows.push_back(moved(From::offset(from_chunk(k + Turn::line_read(lane), outer)),
                               From::offset(from_chunk(first + round_k, round_outer))));
        std::uint32_t pairs[32][4];
        for (int matrix = 0; matrix < 4; ++matrix) {
          expect_all_banks({rows.begin() + 8 * matrix, rows.begin() + 8 * matrix + 8}, 16);
          for (int lane = 0; lane < 32; ++lane) {  // turned: column lane / 4 of rows 2 * (lane % 4) and the next
            pairs[lane][matrix] = 0;
            for (int byte = 0; byte < 4; ++byte) {
              const auto row = static_cast<std::size_t>(8 * matrix + 2 * (lane % 4) + byte / 2);
              const auto column = static_cast<unsigned int>(2 * (lane / 4) + byte % 2);
              pairs[lane][matrix] |= static_cast<std::uint32_t>(from_[rows[row] + column]) << (8 * byte);
            }
          }
        }
        for (int lane = 0; lane < 32; ++lane)
          for (int i = 0; i < 4; ++i) {
            const std::uint64_t both = pairs[lane][i / 2 * 2] | std::uint64_t{pairs[lane][i / 2 * 2 + 1]} << 32;
            words[lane][i] = 0;
            for (int byte = 0; byte < 4; ++byte)
              words[lane][i] |=
                  static_cast<std::uint32_t>(both >> (8 * (Turn::selector(lane, i % 2) >> (4 * byte) & 7)) & 0xff)
                  << (8 * byte);
          }
      } else {
        for (int i = 0; i < 4; ++i) {
          std::vector<unsigned int> read;
          for (int lane = 0; lane < 32; ++lane) {
            const int lane_outer = outer + Turn::place_read(lane);
            read.push_back(moved(From::offset(from_chunk(k + Turn::line_read(lane), lane_outer)) +
                                     static_cast<unsigned int>(lane_outer % kPerChunk * kBytes),
                                 From::offset(from_chunk(first + round_k + i, round_outer))));
            words[lane][i] = word_at(from_, read.back());
          }
          if (kOuter >= 32) expect_all_banks(read, 4);
        }
      }
      std::vector<unsigned int> written;
      for (int lane = 0; lane < 32; ++lane)
        written.push_back(moved(To::offset(to_chunk(outer + Turn::line_written(lane), k) |
                                           static_cast<unsigned int>(Turn::chunk_written(lane))),
                                To::offset(to_chunk(round_outer, first % kPlaceK + round_k))));
      for (int eight = 0; eight < 32; eight += 8) {
        expect_all_banks({written.begin() + eight, written.begin() + eight + 8}, 16);
        for (int row = 0; row < 8; ++row)
          for (int word = 0; word < 4; ++word) {
            // stmatrix: row `row` of matrix eight / 8 lies in four lanes; others: all of a lane's.
            const std::uint32_t value = kBytes == 1 ? words[4 * row + word][eight / 8] : words[eight + row][word];
            std::memcpy(&to_[written[static_cast<std::size_t>(eight + row)] + static_cast<unsigned int>(4 * word)],
                        &value, 4);
          }
      }
    }
  }

  /// One instruction's 32 bytes of K, as wgmma reads them of lines of kPanelLineBytes: eight of these lie in a group,
  /// and bits 4 to 6 of a byte's address are changed by bits 7 to 9.
  void expect_step(int k) {
    const unsigned int in_place = static_cast<unsigned int>(k % kPlaceK * kBytes), line = To::kPanelLineBytes;
    const unsigned int start = in_place / line * To::kPanelBytes + in_place % line;
    for (unsigned int outer = 0; outer < kOuter; ++outer)
      for (unsigned int byte = 0; byte < 32; byte += kBytes) {
        unsigned int address = start + outer / 8 * (8 * line) + outer % 8 * line + byte;
        address ^= address >> 3 & ((line / 16 - 1) << 4);
        std::uint32_t value = 0;
        std::memcpy(&value, &to_[address], kBytes);
        ASSERT_EQ(value, number(static_cast<int>(outer), k + static_cast<int>(byte) / kBytes))
            << "outer " << outer << ", k " << k << " and byte " << byte;
      }
  }

  Memory from_, to_;
};

template <int kBytes, int kOuter, int kK, int kPlaceK, int kPartK>
void expect_turned() {
  SCOPED_TRACE(::testing::Message() << kBytes << " bytes, " << kOuter << " by " << kK << ", places of " << kPlaceK
                                    << ", parts of " << kPartK);
  Turned<kBytes, kOuter, kK, kPlaceK, kPartK, 4>().expect();
  Turned<kBytes, kOuter, kK, kPlaceK, kPartK, 8>().expect();
}

TEST(TurnPlaces, BytesComeToLieAlongK) {
  expect_turned<1, 128, 128, 128, 64>();
  expect_turned<1, 256, 128, 64, 32>();
  expect_turned<1, 64, 256, 128, 64>();
  expect_turned<1, 16, 128, 128, 64>();
  expect_turned<1, 32, 64, 64, 32>();
  expect_turned<1, 64, 32, 32, 32>();
  expect_turned<1, 128, 64, 64, 64>();
  expect_turned<1, 512, 64, 32, 32>();
}

TEST(TurnPlaces, FloatsComeToLieAlongK) {
  expect_turned<4, 128, 32, 32, 16>();
  expect_turned<4, 256, 64, 16, 8>();
  expect_turned<4, 64, 64, 32, 16>();
  expect_turned<4, 16, 32, 32, 16>();
  expect_turned<4, 32, 16, 16, 8>();
  expect_turned<4, 128, 32, 32, 32>();
}

}  // namespace
}  // namespace kiln::test
