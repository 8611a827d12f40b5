#include "registry/plan/memory_overlap.hpp"

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

alignas(64) std::byte buffer[1 << 12];

TensorView view(DType dtype, const Dims& shape, const Dims& strides, std::int64_t offset_bytes) {
  return {buffer + 1024 + offset_bytes, dtype, Device::cpu(), shape, strides};
}

std::multiset<const std::byte*> bytes_of(const TensorView& tensor) {
  std::multiset<const std::byte*> bytes;
  for_each_element(tensor, [&](std::int64_t offset) {
    for (std::int64_t i = 0; i < itemsize_bytes(tensor.dtype); ++i)
      bytes.insert(static_cast<const std::byte*>(tensor.data) + offset + i);
  });
  return bytes;
}

TensorView random_view(std::mt19937_64& random) {
  constexpr DType kDTypes[] = {DType::u8, DType::f16, DType::f32, DType::f64};
  const DType dtype = kDTypes[random() % 4];
  Dims shape, strides;
  for (auto rank = random() % 4; rank > 0; --rank) {
    shape.push_back(static_cast<std::int64_t>(random() % 5));
    strides.push_back(static_cast<std::int64_t>(random() % 17) - 8);
  }
  return view(dtype, shape, strides, static_cast<std::int64_t>(random() % 64) * itemsize_bytes(dtype));
}

TEST(MemoryExtentTest, CoversExactlyTheBytesReached) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const TensorView tensor = random_view(random);
    const MemoryExtent extent = memory_extent(tensor);
    const auto bytes = bytes_of(tensor);
    ASSERT_EQ(extent.empty(), bytes.empty()) << describe(tensor);
    if (bytes.empty()) continue;
    ASSERT_EQ(*bytes.begin() - static_cast<std::byte*>(tensor.data), extent.begin_bytes) << describe(tensor);
    ASSERT_EQ(*bytes.rbegin() + 1 - static_cast<std::byte*>(tensor.data), extent.end_bytes) << describe(tensor);
  }
}

TEST(MemoryExtentTest, WhatIsEmptyMayHaveAnyStrides) {
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const auto& [shape, strides] : std::vector<std::pair<Dims, Dims>>{
           {{0, 4}, {huge, huge}}, {{4, 0}, {huge, huge}}, {{huge, 4, 0}, {-huge, huge, 1}}})
    EXPECT_TRUE(memory_extent(view(DType::f64, shape, strides, 0)).empty());
}

TEST(MemoryExtentTest, RefusesSpansBeyondInt64) {
  EXPECT_THROW(memory_extent(view(DType::f64, {4}, {std::int64_t{1} << 62}, 0)), UsageError);
  EXPECT_THROW(memory_extent(view(DType::f64, {std::int64_t{1} << 61}, {1}, 0)), UsageError);
}

TEST(ProvablyDisjointTest, NeverCallsOverlappingViewsDisjoint) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int disjoint = 0, proven = 0;
  for (int i = 0; i < 20000; ++i) {
    const TensorView a = random_view(random), b = random_view(random);
    const auto a_bytes = bytes_of(a), b_bytes = bytes_of(b);
    if (a_bytes.empty() || b_bytes.empty()) continue;
    const bool really =
        std::none_of(a_bytes.begin(), a_bytes.end(), [&](const std::byte* byte) { return b_bytes.contains(byte); });
    disjoint += really ? 1 : 0;
    if (!provably_disjoint(a, b)) continue;
    ++proven;
    ASSERT_TRUE(really) << describe(a) << " and " << describe(b) << " at distance "
                        << static_cast<std::byte*>(b.data) - static_cast<std::byte*>(a.data);
  }
  EXPECT_GT(proven, 1000);
  EXPECT_GE(disjoint, proven);
}

TEST(ProvablyDisjointTest, SeesThroughSlicesOfOneArray) {
  // x[::2] and x[1::2]
  EXPECT_TRUE(provably_disjoint(view(DType::f32, {8}, {2}, 0), view(DType::f32, {8}, {2}, 4)));
  EXPECT_FALSE(provably_disjoint(view(DType::f32, {8}, {2}, 0), view(DType::f32, {8}, {2}, 8)));
  // x[:, :3], x[:, 3:] and x[:, 2:] of an (8, 6) matrix
  EXPECT_TRUE(provably_disjoint(view(DType::f32, {8, 3}, {6, 1}, 0), view(DType::f32, {8, 3}, {6, 1}, 12)));
  EXPECT_FALSE(provably_disjoint(view(DType::f32, {8, 3}, {6, 1}, 0), view(DType::f32, {8, 4}, {6, 1}, 8)));
  // The same columns backwards, and heads of a (batch, heads, width) array
  EXPECT_TRUE(provably_disjoint(view(DType::f32, {8, 3}, {6, -1}, 8), view(DType::f32, {8, 3}, {-6, 1}, 12 + 24 * 7)));
  EXPECT_TRUE(
      provably_disjoint(view(DType::f16, {4, 2, 8}, {32, 8, 1}, 0), view(DType::f16, {4, 2, 8}, {32, 8, 1}, 32)));
  // Re and Im of a complex array against another dtype of half the size
  EXPECT_TRUE(provably_disjoint(view(DType::f32, {8}, {2}, 0), view(DType::f16, {8}, {4}, 4)));
}

TEST(MayOverlapItselfTest, FindsEveryRepeatedElement) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 5000; ++i) {
    const TensorView tensor = random_view(random);
    if (may_overlap_itself(tensor)) continue;
    const auto bytes = bytes_of(tensor);
    ASSERT_EQ(std::set<const std::byte*>(bytes.begin(), bytes.end()).size(), bytes.size()) << describe(tensor);
  }
  EXPECT_FALSE(may_overlap_itself(view(DType::f32, {3, 4}, {4, 1}, 0)));
  EXPECT_FALSE(may_overlap_itself(view(DType::f32, {3, 4}, {1, -3}, 40)));
  EXPECT_FALSE(may_overlap_itself(view(DType::f32, {1, 4}, {0, 1}, 0)));
  EXPECT_TRUE(may_overlap_itself(view(DType::f32, {3, 4}, {0, 1}, 0)));
  EXPECT_TRUE(may_overlap_itself(view(DType::f32, {4, 4}, {1, 1}, 0)));
}

TEST(SameElementsTest, ComparesWhatAddressesAndNotHowTheyAreWritten) {
  const TensorView output = view(DType::f32, {4, 3}, {3, 1}, 0);
  EXPECT_TRUE(same_elements(output, output));
  EXPECT_TRUE(same_elements(output, view(DType::i32, {1, 4, 3}, {99, 3, 1}, 0)));
  EXPECT_FALSE(same_elements(output, view(DType::f64, {4, 3}, {3, 1}, 0)));
  EXPECT_FALSE(same_elements(output, view(DType::f32, {4, 3}, {3, 1}, 4)));
  EXPECT_FALSE(same_elements(output, view(DType::f32, {3}, {1}, 0)));
  EXPECT_FALSE(same_elements(output, view(DType::f32, {4, 3}, {1, 4}, 0)));
}

/// The complaint about a call with one output and the given inputs, or nothing.
std::string problem_of(Aliasing aliasing, const TensorView& output, const std::vector<TensorView>& inputs) {
  OpSpec spec;
  spec.name = "op";
  spec.outputs = {{"out", ""}};
  spec.aliasing = aliasing;
  std::vector<const TensorView*> tensors = {&output};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    spec.inputs.push_back({"in" + std::to_string(i), ""});
    tensors.push_back(&inputs[i]);
  }
  std::vector<MemoryExtent> extents;
  for (const TensorView* tensor : tensors) extents.push_back(memory_extent(*tensor));
  try {
    check_memory(spec, tensors, 1, extents);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckMemoryTest, AllowsExactlyWhatTheOpSays) {
  const TensorView output = view(DType::f32, {8}, {1}, 0);
  const TensorView elsewhere = view(DType::f32, {8}, {1}, 64), shifted = view(DType::f32, {8}, {1}, 4);

  EXPECT_THAT(problem_of(Aliasing::none, output, {elsewhere, elsewhere}), IsEmpty());
  EXPECT_THAT(problem_of(Aliasing::none, output, {output, elsewhere}),
              Says("overlaps input 'in0'", "must share no memory"));

  EXPECT_THAT(problem_of(Aliasing::elementwise, output, {output, output}), IsEmpty());
  EXPECT_THAT(problem_of(Aliasing::elementwise, output, {elsewhere, shifted}),
              Says("overlaps input 'in1'", "starting 4 bytes before it", "exactly that input"));

  EXPECT_THAT(problem_of(Aliasing::first_input, output, {output, elsewhere}), IsEmpty());
  EXPECT_THAT(problem_of(Aliasing::first_input, output, {shifted, elsewhere}),
              Says("overlaps input 'in0'", "exactly that input"));
  EXPECT_THAT(problem_of(Aliasing::first_input, output, {output, output}),
              Says("overlaps input 'in1'", "must share no memory"));

  EXPECT_THAT(problem_of(Aliasing::any, output, {output, shifted}), IsEmpty());
}

}  // namespace
}  // namespace kiln::test
