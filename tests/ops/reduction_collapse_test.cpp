#include "ops/reduction/collapse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kiln::test {
namespace {

using reduction::collapse;
using reduction::CollapsedDim;
using reduction::CollapsedReduction;

TensorView strided(const Dims& shape, const Dims& strides) {
  return shaped(DType::f32, shape, strides);
}

CollapsedReduction collapse_to(const TensorView& input, const std::vector<int>& axes, bool keep_order = false) {
  const TensorView output = shaped(DType::f32, reduction::output_shape(input, axes, false));
  return collapse(input, std::span(&output, 1), axes, keep_order);
}

TEST(ReductionCollapse, DenseTensorReducedToOneNumberIsOneRow) {
  const CollapsedReduction all = collapse_to(shaped(DType::f32, {4, 5, 6}), {0, 1, 2});
  ASSERT_EQ(all.reduced.size(), 1u);
  EXPECT_EQ(all.reduced[0].extent, 120);
  EXPECT_EQ(all.reduced[0].strides[reduction::kInput], 1);
  EXPECT_EQ(all.kept_total, 1);
  EXPECT_TRUE(all.reduces_rows());
  EXPECT_TRUE(all.has_dense_columns());
}

TEST(ReductionCollapse, OrderAndDirectionMatterOnlyForPlaces) {
  const TensorView transposed = strided({5, 4}, {1, 5});
  EXPECT_EQ(collapse_to(transposed, {0, 1}).reduced.size(), 1u);
  EXPECT_EQ(collapse_to(transposed, {0, 1}, true).reduced.size(), 2u);
  const TensorView backwards = strided({10}, {-2});
  EXPECT_EQ(collapse_to(backwards, {0}).reduced[0].strides[reduction::kInput], 2);
  EXPECT_EQ(collapse_to(backwards, {0}).input_offset, -18);
  EXPECT_EQ(collapse_to(backwards, {0}, true).reduced[0].strides[reduction::kInput], -2);
  EXPECT_EQ(collapse_to(backwards, {0}, true).input_offset, 0);
}

TEST(ReductionCollapse, TilesFollowTheContiguousDimension) {
  const TensorView x = shaped(DType::f32, {4, 5, 6});
  EXPECT_TRUE(collapse_to(x, {2}).reduces_rows());
  EXPECT_TRUE(collapse_to(x, {0, 2}).reduces_rows());
  EXPECT_FALSE(collapse_to(x, {0}).reduces_rows());
  EXPECT_FALSE(collapse_to(x, {1}).reduces_rows());
  EXPECT_EQ(collapse_to(x, {0}).kept.size(), 1u);  // the last two axes step as one
  EXPECT_TRUE(collapse_to(x, {0}).has_dense_columns());
  EXPECT_FALSE(collapse_to(strided({4, 5}, {10, 2}), {1}).has_dense_columns());
}

TEST(ReductionCollapse, BroadcastDimensionsComeLast) {
  const CollapsedReduction collapsed = collapse_to(strided({8, 9}, {0, 1}), {0, 1});
  ASSERT_EQ(collapsed.reduced.size(), 2u);
  EXPECT_EQ(collapsed.reduced[0].strides[reduction::kInput], 1);
  EXPECT_EQ(collapsed.reduced[1].strides[reduction::kInput], 0);
}

/// The offsets that the dimensions reach, with those of the first output.
std::vector<std::pair<std::int64_t, std::int64_t>> walk(const std::vector<CollapsedDim>& dims) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places = {{0, 0}};
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    std::vector<std::pair<std::int64_t, std::int64_t>> next;
    for (const auto& [in, out] : places)
      for (std::int64_t i = 0; i < dim->extent; ++i)
        next.emplace_back(in + i * dim->strides[reduction::kInput], out + i * dim->strides[reduction::kFirstOutput]);
    places = std::move(next);
  }
  return places;
}

TEST(ReductionCollapse, ReachesTheElementsThatTheAxesName) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const int rank = static_cast<int>(random() % 5);
    Dims shape, strides;
    for (int axis = 0; axis < rank; ++axis) {
      shape.push_back(static_cast<std::int64_t>(random() % 4));
      strides.push_back(static_cast<std::int64_t>(random() % 40) - 20);
    }
    if (random() % 2 == 0) strides = contiguous_strides(shape);
    const TensorView input = strided(shape, strides);
    std::vector<int> axes;
    for (int axis = 0; axis < rank; ++axis)
      if (random() % 2 == 0) axes.push_back(axis);
    const bool keepdim = random() % 2 == 0, keep_order = random() % 2 == 0;
    const TensorView output = shaped(DType::f32, reduction::output_shape(input, axes, keepdim));

    std::map<std::int64_t, std::vector<std::int64_t>> expected, got;  // by output offset, in row-major order
    std::vector<std::int64_t> index(static_cast<std::size_t>(rank));
    for (std::int64_t i = 0; i < input.numel(); ++i) {
      std::int64_t in = 0, out = 0;
      for (int axis = 0, to = 0; axis < rank; ++axis) {
        const bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
        in += index[static_cast<std::size_t>(axis)] * strides[axis];
        if (!reduced) out += index[static_cast<std::size_t>(axis)] * output.strides[to];
        if (!reduced || keepdim) ++to;
      }
      expected[out].push_back(in);
      for (int axis = rank - 1; axis >= 0 && ++index[static_cast<std::size_t>(axis)] == shape[axis]; --axis)
        index[static_cast<std::size_t>(axis)] = 0;
    }
    const CollapsedReduction collapsed = collapse(input, std::span(&output, 1), axes, keep_order);
    for (const auto& [kept_in, out] : walk(collapsed.kept))
      for (const auto& [reduced_in, none] : walk(collapsed.reduced)) {
        EXPECT_EQ(none, 0);
        got[out].push_back(collapsed.input_offset + kept_in + reduced_in);
      }
    if (!keep_order)
      for (auto* offsets : {&expected, &got})
        for (auto& [out, list] : *offsets) std::sort(list.begin(), list.end());
    EXPECT_EQ(got, expected) << to_string(shape) << " strides " << to_string(strides);
  }
}

TEST(ReductionCollapse, SpreadDimensionsHaveThePlacesOfTheirElements) {
  std::mt19937_64 random(9);
  int spread = 0;
  for (int round = 0; round < 300; ++round) {
    Dims shape, strides;
    std::vector<int> axes;
    for (int axis = 0, rank = 1 + static_cast<int>(random() % 5); axis < rank; ++axis) {
      shape.push_back(1 + static_cast<std::int64_t>(random() % 5));
      strides.push_back(static_cast<std::int64_t>(random() % 40) - 20);
      axes.push_back(axis);
    }
    const CollapsedReduction in_order = collapse_to(strided(shape, strides), axes, true);
    if (in_order.reduced.size() == 1) continue;
    ++spread;
    const CollapsedReduction collapsed = reduction::spread_out(in_order);
    ASSERT_EQ(collapsed.reduced.size(), 1u);
    EXPECT_EQ(collapsed.kept_total * collapsed.reduced_total, num_elements(shape));
    EXPECT_GT(collapsed.reduced[0].strides[reduction::kPlace], 0);  // in the order of their places
    std::vector<std::int64_t> expected, got(static_cast<std::size_t>(num_elements(shape)), -1);
    for (const auto& [in, none] : walk(in_order.reduced)) expected.push_back(in);
    for (const auto& [kept_in, kept_place] : walk(collapsed.kept))
      for (const auto& [reduced_in, reduced_place] : walk(collapsed.reduced))
        got.at(static_cast<std::size_t>(kept_place + reduced_place)) = kept_in + reduced_in;
    EXPECT_EQ(got, expected) << to_string(shape) << " strides " << to_string(strides);
  }
  EXPECT_GT(spread, 100);
}

TEST(ReductionCollapse, SpreadDimensionsAreWalkedAsMemoryHasThem) {
  const CollapsedReduction tall = reduction::spread_out(collapse_to(strided({1000, 7}, {1, 1000}), {0, 1}, true));
  EXPECT_TRUE(tall.reduces_rows());
  EXPECT_EQ(tall.reduced[0].extent, 1000);
  EXPECT_TRUE(tall.has_dense_columns());
  const CollapsedReduction wide = reduction::spread_out(collapse_to(strided({7, 1000}, {1, 7}), {0, 1}, true));
  EXPECT_FALSE(wide.reduces_rows());
  EXPECT_EQ(wide.kept[0].extent, 7);
  EXPECT_TRUE(wide.has_dense_columns());
}

}  // namespace
}  // namespace kiln::test
