// How operands lie in shared memory and in a warp's registers, without a GPU: a whole dot by an emulation of ldmatrix
// and mma.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "compiler/tl/cuda/mma_places.hpp"

namespace kiln::test {
namespace {

/// What a warp's lanes hold of an operand, element by element: register q of a lane has kPerRegister of them.
template <int kElementBytes>
struct HeldFragment {
  static constexpr int kPerRegister = kElementBytes == 8 ? 1 : 4 / kElementBytes;
  int elements[32][4][kPerRegister];
};

/// An operand whose elements are numbers of their own, in shared memory as tl::SharedPlaces says, read as the kernel
/// reads it.
template <int kElementBytes, bool kOfB, int kOuter, int kK, bool kAlongK>
class EmulatedOperand {
 public:
  using Fragments = tl::FragmentPlaces<kElementBytes, kOfB, kOuter, kK, kAlongK>;
  using Mma = tl::MmaPlaces<kElementBytes, kOfB>;
  using Held = HeldFragment<kElementBytes>;

  explicit EmulatedOperand(const std::vector<int>& values) {  // [outer][k]
    for (int outer = 0; outer < kOuter; ++outer)
      for (int k = 0; k < kK; ++k) {
        const int in_chunk = (kAlongK ? k : outer) % Fragments::kPerChunk;
        at(tl::SharedPlaces::offset(Fragments::chunk(outer, k)) + static_cast<unsigned int>(in_chunk * kElementBytes)) =
            values[static_cast<std::size_t>(outer * kK + k)];
      }
  }

  Held read(int fragment, int step) {
    Held held{};
    constexpr int kPairs = Held::kPerRegister;
    // SharedTile::moved, with lane_chunk's place as the lane's address.
    const auto address = [&](int lane, int outer, int k) {
      const unsigned int lane_offset = tl::SharedPlaces::offset(Fragments::lane_chunk(lane));
      const unsigned int moved =
          tl::SharedPlaces::offset(Fragments::chunk(16 * fragment + outer, Mma::kStepK * step + k));
      return (lane_offset ^ (moved & 127)) + (moved & ~127u);
    };
    for (int lane = 0; lane < 32; ++lane)
      for (int q = 0; q < 4; ++q) {
        const int group = lane / 4, quad = lane % 4, half = Mma::half(q), inner_half = Mma::inner_half(q);
        const auto in_chunk = static_cast<unsigned int>(group % Fragments::kPerChunk * kElementBytes);
        if constexpr (kElementBytes == 8) {
          held.elements[lane][q][0] = kAlongK
                                          ? at(address(lane, 8 * half, 0) + 8 * static_cast<unsigned int>(inner_half))
                                          : at(address(lane, 8 * half, inner_half) + in_chunk);
        } else if constexpr (!Fragments::kMatrices) {
          held.elements[lane][q][0] = at(address(lane, 8 * half, 4 * inner_half) + in_chunk);
        } else if constexpr (kElementBytes == 1 && !kAlongK) {
          for (int byte = 0; byte < 4; ++byte) {
            const int chosen = static_cast<int>(Fragments::bytes_selector(q) >> (4 * byte)) & 7;
            const int matrix = 2 * inner_half + chosen / 4;
            const int row = 2 * quad + chosen % 4 / 2, column = 2 * group + chosen % 2;
            held.elements[lane][q][byte] = at(address(8 * matrix + row, 0, 0) + static_cast<unsigned int>(column));
          }
        } else {
          for (int i = 0; i < kPairs; ++i) {
            // ldmatrix: row `group` and 4 bytes from 4 * quad on; turned, elements 2 * quad and 2 * quad + 1 of column
            // `group`.
            const int row = kAlongK ? group : 2 * quad + i;
            const int byte = kAlongK ? 4 * quad + i * kElementBytes : group * kElementBytes;
            held.elements[lane][q][i] = at(address(8 * q + row, 0, 0) + static_cast<unsigned int>(byte));
          }
        }
      }
    return held;
  }

 private:
  int& at(unsigned int byte) { return memory_[byte / kElementBytes]; }
  std::vector<int> memory_ = std::vector<int>(static_cast<std::size_t>(kOuter * kK));
};

/// The whole of a dot on one warp, with mma.m16n8's documented layouts of operands and results.
template <int kElementBytes, bool kAAlongK, bool kBAlongK>
void expect_product() {
  SCOPED_TRACE(::testing::Message() << kElementBytes << " bytes, a along K " << kAAlongK << ", b along K " << kBAlongK);
  constexpr int kM = 32, kN = 64, kK = 128 / kElementBytes;
  using Places = tl::MmaPlaces<kElementBytes>;
  constexpr int kPerRegister = HeldFragment<kElementBytes>::kPerRegister;
  std::mt19937 random(7);
  std::vector<int> a(kM * kK), b(kN * kK);  // b transposed
  for (int& value : a) value = static_cast<int>(random() % 100) - 50;
  for (int& value : b) value = static_cast<int>(random() % 100) - 50;
  EmulatedOperand<kElementBytes, false, kM, kK, kAAlongK> rows(a);
  EmulatedOperand<kElementBytes, true, kN, kK, kBAlongK> columns(b);
  std::vector<int> sums(kM * kN);
  for (int step = 0; step < kK / Places::kStepK; ++step)
    for (int i = 0; i < kM / 16; ++i)
      for (int j = 0; j < kN / 16; ++j) {
        const auto held_a = rows.read(i, step);
        const auto held_b = columns.read(j, step);
        for (int half = 0; half < 2; ++half)
          for (int row = 0; row < 16; ++row)
            for (int column = 0; column < 8; ++column) {
              int sum = 0;
              for (int k = 0; k < Places::kStepK; ++k) {
                const int quad = k / kPerRegister % 4, inner_half = k / (4 * kPerRegister), element = k % kPerRegister;
                sum += held_a.elements[row % 8 * 4 + quad][row / 8 + 2 * inner_half][element] *
                       held_b.elements[column * 4 + quad][2 * half + inner_half][element];
              }
              sums[static_cast<std::size_t>((16 * i + Places::outer(row % 8, row / 8)) * kN + 16 * j +
                                            Places::outer(column, half))] += sum;
            }
      }
  for (int row = 0; row < kM; ++row)
    for (int column = 0; column < kN; ++column) {
      int expected = 0;
      for (int k = 0; k < kK; ++k)
        expected += a[static_cast<std::size_t>(row * kK + k)] * b[static_cast<std::size_t>(column * kK + k)];
      ASSERT_EQ(sums[static_cast<std::size_t>(row * kN + column)], expected) << row << ", " << column;
    }
}

template <int kElementBytes>
void expect_products() {
  expect_product<kElementBytes, true, true>();
  expect_product<kElementBytes, true, false>();
  expect_product<kElementBytes, false, true>();
  expect_product<kElementBytes, false, false>();
}

TEST(DotOnGpus, FragmentsMeetAsTheInstructionsMultiply) {
  expect_products<1>();
  expect_products<2>();
  expect_products<4>();
  expect_products<8>();
}

}  // namespace
}  // namespace kiln::test
