#pragma once

#include "compiler/tl/cuda/sm90/shared_memory.hpp"
#include "compiler/tl/number.hpp"

namespace kiln::tl::sm90 {

/// Operand a of a product of tf32, fp8 or i8 whose dense dimension is m: these products take a so from registers alone.
/// It lies in shared memory in panels: a row for each of 128 bytes of k, of PANEL_ELEMENTS of m, as a box of that many
/// leaves it with a swizzle of kPanelRowBytes. Panels follow one another, from a multiple of 1024 on. 8-bit types may
/// have panels of 64 or of 128 elements, which the copy engine fetches faster.
///
/// Which element of m a row of the product means is free, so rows are dealt out to suit the loads: where thread t's d
/// has rows r and r + 8 of other products, it has `row(t)` and the next of m here.
template <typename T, int PANEL_ELEMENTS = sizeof(T) == 4 ? 32 : 64>
struct Fragment {
  static_assert(sizeof(T) == 4 || sizeof(T) == 1, "products of 16-bit types take either order from shared memory");
  static_assert(sizeof(T) == 4 ? PANEL_ELEMENTS == 32 : PANEL_ELEMENTS == 64 || PANEL_ELEMENTS == 128,
                "rows of 64 or 128 bytes");
  static constexpr int kPanelRowBytes = PANEL_ELEMENTS * static_cast<int>(sizeof(T));
  /// Of 64 rows of the product; a panel of 128 elements has two blocks of rows side by side.
  static constexpr int kRowBlockBytes = 64 * 128;
  static constexpr bool kIsShared = PANEL_ELEMENTS == 128;

  uint32_t first;      ///< where this thread's first load lies
  uint32_t even, odd;  ///< bytes of two words of 8-bit elements that belong to one row of the product, and to the next

  KILN_DEVICE static int row(int thread) {
    const int warp = thread / 32, group = thread % 32 / 4;
    if constexpr (sizeof(T) == 4) return warp / 2 * PANEL_ELEMENTS + chunk(thread) * 4 + group % 2 * 2;
    return warp * 16 + group * 2;
  }

  /// Of a thread whose row blocks start with number `first_block`: where panels are shared, an even one if there are
  /// several.
  KILN_DEVICE Fragment(int thread, int first_block) {
    const int lane = thread % 32, in_quad = lane % 4;
    if constexpr (sizeof(T) == 4) {
      const int panel = thread / 64;
      first = static_cast<uint32_t>(panel * (kRowBlockBytes / 2) + in_quad * kPanelRowBytes +
                                    ((chunk(thread) ^ in_quad) << 4) + lane / 4 % 2 * 8);
      even = odd = 0;
    } else {
      // Rows of matrix 2 * h and 2 * h + 1 are of 16 k from 16 * h on. Product rows take k by fours, of which one
      // matrix has two and the other the rest; which has which alternates so that 8 rows of a matrix lie in all banks.
      const int pair = lane % 8 / 2, matrix = lane / 8;
      const int k = matrix / 2 * 16 + pair * 4 + ((matrix % 2 != 0) != (pair >= 2) ? 2 : 0) + lane % 2;
      const int chunk = kIsShared ? (first_block % 2 * 4 + thread / 32) ^ (k % 8) : thread / 32 ^ (k / 2 % 4);
      first = static_cast<uint32_t>(k * kPanelRowBytes + (chunk << 4));
      even = in_quad < 2 ? 0x6420 : 0x2064;
      odd = in_quad < 2 ? 0x7531 : 0x3175;
    }
    first += static_cast<uint32_t>((kIsShared ? first_block / 2 * 2 : first_block) * kRowBlockBytes);
  }

  /// Registers of the product of the `step`-th 32 bytes of k, of the thread's `block`-th row block, of the operand at
  /// `address`.
  KILN_DEVICE void load(uint32_t address, int block, int step, uint32_t (&a)[4]) const {
    const uint32_t place =
        kIsShared ? (address + first + static_cast<uint32_t>(block / 2 * 2 * kRowBlockBytes)) ^ (block % 2 * 64)
                  : address + first + static_cast<uint32_t>(block * kRowBlockBytes);
    if constexpr (sizeof(T) == 4) {
      // k of 4 more is 4 rows further, where chunks have changed places by 4.
      uint32_t near[2], far[2];
      get_shared_pair(place + step * 8 * kPanelRowBytes, near);
      get_shared_pair((place ^ 64) + (step * 8 + 4) * kPanelRowBytes, far);
      a[0] = near[0];
      a[1] = near[1];
      a[2] = far[0];
      a[3] = far[1];
    } else {
      uint32_t words[4];
      get_matrices_transposed(place + step * 32 * kPanelRowBytes, words);
      KILN_UNROLL for (int h = 0; h < 2; ++h) {
        a[2 * h] = __byte_perm(words[2 * h], words[2 * h + 1], even);
        a[2 * h + 1] = __byte_perm(words[2 * h], words[2 * h + 1], odd);
      }
    }
  }

 private:
  /// Of 16 bytes of a panel's row, 4-byte elements. Half a warp reads two chunks of 4 rows of k, and later stores them
  /// to every other of 8 lines: of chunks 5 apart neither meets in a bank.
  KILN_DEVICE static int chunk(int thread) {
    const int group = thread % 32 / 4;
    return (thread / 32 % 2 * 2 + group / 4) ^ (group / 2 % 2 * 5);
  }
};

}  // namespace kiln::tl::sm90
