#include "ops/linear/packing.hpp"

#include <gtest/gtest.h>

namespace kiln::test {
namespace {

TensorView on_gpu(DType dtype, const Dims& shape, const Dims& strides) {
  return shaped(dtype, shape, strides, Device::cuda());
}

TEST(LinearPacking, WeightsThatTheCopyEngineReadsStayAsTheyAre) {
  EXPECT_FALSE(linear::needs_packing(on_gpu(DType::bf16, {64, 72}, {72, 1})));
  EXPECT_FALSE(linear::needs_packing(on_gpu(DType::bf16, {64, 71}, {72, 1})));
  EXPECT_FALSE(linear::needs_packing(on_gpu(DType::f16, {64, 71}, {1, 64})));
  EXPECT_FALSE(linear::needs_packing(on_gpu(DType::f32, {64, 64}, {1, 64})));
  EXPECT_FALSE(linear::needs_packing(on_gpu(DType::fp8e4m3, {64, 32}, {48, 1})));
  EXPECT_FALSE(linear::needs_packing(on_gpu(DType::f32, {1, 3}, {3, 1})));
}

TEST(LinearPacking, RowsBetweenAlignedAddressesAndBytesAcrossInArePacked) {
  EXPECT_TRUE(linear::needs_packing(on_gpu(DType::bf16, {64, 71}, {71, 1})));
  EXPECT_TRUE(linear::needs_packing(on_gpu(DType::bf16, {64, 72}, {144, 2})));
  EXPECT_TRUE(linear::needs_packing(on_gpu(DType::f16, {63, 71}, {1, 63})));
  EXPECT_TRUE(linear::needs_packing(on_gpu(DType::fp8e4m3, {64, 64}, {1, 64})));
  EXPECT_TRUE(linear::needs_packing(on_gpu(DType::f32, {63, 64}, {1, 63})));
  TensorView moved = on_gpu(DType::bf16, {64, 72}, {72, 1});
  moved.data = reinterpret_cast<void*>(std::uintptr_t{0x1002});
  EXPECT_TRUE(linear::needs_packing(moved));
}

TEST(LinearPacking, NothingIsPackedOnTheCpuOrOfNothing) {
  EXPECT_FALSE(linear::needs_packing(shaped(DType::bf16, {64, 71})));
  EXPECT_FALSE(linear::needs_packing(on_gpu(DType::bf16, {0, 71}, {71, 1})));
}

TEST(LinearPacking, PackedRowsAreWholeLinesAndNeedNoPacking) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::fp8e4m3, DType::i8})
    for (const std::int64_t in : {1, 63, 64, 65, 4093}) {
      const TensorView weight = on_gpu(dtype, {96, in}, {1, 96});
      const Dims strides = linear::packed_strides(weight);
      EXPECT_EQ(strides[1], 1);
      EXPECT_GE(strides[0], in);
      EXPECT_EQ(strides[0] * itemsize_bytes(dtype) % 128, 0);
      EXPECT_LT((strides[0] - in) * itemsize_bytes(dtype), 128);
      EXPECT_FALSE(linear::needs_packing(on_gpu(dtype, {96, in}, strides)));
    }
}

}  // namespace
}  // namespace kiln::test
