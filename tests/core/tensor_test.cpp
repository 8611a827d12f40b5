#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "core/errors.hpp"

namespace kiln::test {
namespace {

TensorView strided(void* data, DType dtype, const Dims& shape, const Dims& strides) {
  return {data, dtype, Device::cpu(), shape, strides};
}

TEST(TensorView, DenseViewsAreContiguous) {
  float data[24];
  const TensorView view = dense_view(data, DType::f32, {2, 3, 4});
  EXPECT_EQ(view.strides, (Dims{12, 4, 1}));
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(view.numel(), 24);
  EXPECT_TRUE(dense_view(data, DType::f32, {}).is_contiguous());
  EXPECT_THROW(dense_view(data, DType::f32, {2, -1}), UsageError);
}

TEST(TensorView, ContiguityIgnoresStridesThatAreNeverUsed) {
  EXPECT_TRUE(strided(nullptr, DType::f32, {4, 1, 3}, {3, 999, 1}).is_contiguous());
  EXPECT_TRUE(strided(nullptr, DType::f32, {1, 1}, {-7, 0}).is_contiguous());
  EXPECT_TRUE(strided(nullptr, DType::f32, {4, 0, 3}, {5, 77, -2}).is_contiguous());
  EXPECT_FALSE(strided(nullptr, DType::f32, {4, 3}, {1, 4}).is_contiguous());
  EXPECT_FALSE(strided(nullptr, DType::f32, {4, 3}, {4, 1}).is_contiguous());
  EXPECT_FALSE(strided(nullptr, DType::f32, {4, 3}, {0, 1}).is_contiguous());
  EXPECT_FALSE(strided(nullptr, DType::f32, {3}, {-1}).is_contiguous());
}

TEST(ByteRange, CoversWhatTheViewCanTouch) {
  std::byte data[1000];
  std::byte* middle = data + 500;
  const auto expect = [&](const TensorView& view, std::ptrdiff_t begin, std::ptrdiff_t end) {
    const ByteRange range = byte_range(view);
    EXPECT_EQ(range.begin - middle, begin) << describe(view);
    EXPECT_EQ(range.end - middle, end) << describe(view);
  };
  expect(dense_view(middle, DType::f32, {2, 3}), 0, 24);
  expect(dense_view(middle, DType::f64, {}), 0, 8);
  expect(strided(middle, DType::f32, {2, 3}, {10, 2}), 0, 60);
  expect(strided(middle, DType::f32, {5, 3}, {0, 1}), 0, 12);    // broadcast rows
  expect(strided(middle, DType::f16, {4}, {-1}), -6, 2);         // reversed
  expect(strided(middle, DType::i8, {3, 4}, {-10, 2}), -20, 7);  // both ways
  expect(strided(middle, DType::f32, {3, 0}, {100, -100}), 0, 0);
}

TEST(ByteRange, OfNothingAtNullIsEmpty) {
  const ByteRange range = byte_range(dense_view(nullptr, DType::f32, {0, 4}));
  EXPECT_EQ(range.begin, nullptr);
  EXPECT_EQ(range.end, nullptr);
}

TEST(ByteRange, RefusesStridesBeyondTheAddressSpace) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(byte_range(strided(nullptr, DType::f32, {3}, {kHuge})), UsageError);
  EXPECT_THROW(byte_range(strided(nullptr, DType::f32, {2}, {kHuge / 2})), UsageError);
  EXPECT_THROW(byte_range(strided(nullptr, DType::i8, {2, 2}, {kHuge, kHuge})), UsageError);
  EXPECT_THROW(byte_range(strided(nullptr, DType::f64, {2}, {-kHuge})), UsageError);
}

TEST(Tensor, SharesItsOwner) {
  auto memory = std::make_shared<float[]>(6);
  std::weak_ptr<float[]> watch = memory;
  Tensor tensor(dense_view(memory.get(), DType::f32, {2, 3}), memory);
  memory.reset();
  tensor.data_as<float>()[5] = 4.0f;
  Tensor copy = tensor;
  tensor = Tensor();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(copy.data_as<float>()[5], 4.0f);
  EXPECT_EQ(copy.numel(), 6);
  copy = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(Describe, NamesEverything) {
  EXPECT_EQ(describe(dense_view(nullptr, DType::f32, {4000, 3000}, Device::cuda(0))),
            "f32 (4000, 3000) strides (3000, 1) on cuda:0");
  EXPECT_EQ(describe(dense_view(nullptr, DType::bool_, {})), "bool () strides () on cpu");
}

}  // namespace
}  // namespace kiln::test
