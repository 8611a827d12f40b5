#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {

/// Tests of tiles of many shapes.
class TileTest : public ::testing::TestWithParam<Device> {
 protected:
  /// The num_warps to try for a tile, `count` of them, others at each call: compiling for all takes minutes. A
  /// program's warps mean nothing on the CPU.
  std::vector<int> some_warps(int numel, int count = 1) {
    if (!GetParam().is_cuda()) return {4};
    std::vector<int> chosen;
    while (static_cast<int>(chosen.size()) < count) {
      const int num_warps = 1 << (calls_++ % 6);
      if (numel <= 32 * 32 * num_warps) chosen.push_back(num_warps);
    }
    return chosen;
  }

  std::mt19937 random_{20261120};

 private:
  int calls_ = 0;
};

}  // namespace kiln::test
