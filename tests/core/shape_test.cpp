#include "core/shape.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST(Dims, HoldsUpToTheLargestRank) {
  const std::vector<std::int64_t> extents(kMaxRank, 2);
  Dims dims{std::span<const std::int64_t>(extents)};
  EXPECT_EQ(dims.size(), kMaxRank);
  EXPECT_THAT(value_error([&] { dims.push_back(1); }), HasSubstr("at most 12"));
  EXPECT_EQ(dims.size(), kMaxRank);
  const std::vector<std::int64_t> too_many(kMaxRank + 1, 2);
  EXPECT_THAT(value_error([&] { Dims{std::span<const std::int64_t>(too_many)}; }), HasSubstr("13 dimensions"));
}

TEST(Dims, ComparesOnlyWhatItHolds) {
  Dims a{2, 3};
  EXPECT_EQ(a, (Dims{2, 3}));
  EXPECT_NE(a, (Dims{2, 3, 1}));
  EXPECT_NE(a, (Dims{3, 2}));
  a.push_back(4);
  EXPECT_EQ(a.back(), 4);
  EXPECT_EQ(to_string(a), "(2, 3, 4)");
  EXPECT_EQ(to_string(Dims{}), "()");
}

TEST(NumElements, MultipliesExtents) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({4000, 3000}), 12'000'000);
  EXPECT_EQ(num_elements({7, 0, 5}), 0);
  EXPECT_EQ(num_elements({kHuge, 1}), kHuge);
  EXPECT_EQ(num_elements({kHuge, 0, kHuge}), 0);
}

TEST(NumElements, RefusesNegativeExtentsAndOverflow) {
  EXPECT_THAT(value_error([] { num_elements({3, -2}); }), HasSubstr("negative extent -2 along axis 1"));
  EXPECT_THAT(value_error([] { num_elements({0, -1}); }), HasSubstr("negative extent -1"));
  EXPECT_THAT(value_error([] { num_elements({kHuge, 2}); }), HasSubstr("more elements"));
  EXPECT_THAT(value_error([] { num_elements({1LL << 32, 1LL << 31}); }), HasSubstr("more elements"));
}

TEST(ContiguousStrides, AreRowMajor) {
  EXPECT_EQ(contiguous_strides({}), Dims{});
  EXPECT_EQ(contiguous_strides({5}), Dims{1});
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1}));
  EXPECT_THAT(value_error([] { contiguous_strides({2, -3}); }), HasSubstr("negative"));
  EXPECT_THAT(value_error([] { contiguous_strides({2, kHuge, 3}); }), HasSubstr("more elements"));
}

Dims broadcast(std::vector<Dims> shapes) {
  return broadcast_shapes(shapes);
}

TEST(BroadcastShapes, FollowsNumPy) {
  EXPECT_EQ(broadcast({}), Dims{});
  EXPECT_EQ(broadcast({{4, 3}}), (Dims{4, 3}));
  EXPECT_EQ(broadcast({{4, 3}, {3}}), (Dims{4, 3}));
  EXPECT_EQ(broadcast({{3}, {4, 1}}), (Dims{4, 3}));
  EXPECT_EQ(broadcast({{}, {4, 3}}), (Dims{4, 3}));
  EXPECT_EQ(broadcast({{8, 1, 6, 1}, {7, 1, 5}, {1}}), (Dims{8, 7, 6, 5}));
  EXPECT_EQ(broadcast({{1, 3}, {0, 1}}), (Dims{0, 3}));
}

TEST(BroadcastShapes, NamesTheShapesThatClash) {
  const std::string message = value_error([] { broadcast({{5, 1, 1}, {4, 3}, {2, 3}}); });
  EXPECT_THAT(message, Says("(4, 3) and (2, 3)", "along axis -2 they have 4 and 2"));
  EXPECT_THAT(value_error([] { broadcast({{2}, {0}}); }), HasSubstr("(2) and (0)"));
  EXPECT_THAT(value_error([] { broadcast({{2}, {-2}}); }), HasSubstr("negative"));
}

}  // namespace
}  // namespace kiln::test
