#include "autotune/candidate.hpp"

#include <string>

#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

ConfigSpace space() {
  return ConfigSpace({{"BLOCK_SIZE", {64, 128, 256}}, {"num_warps", {2, 4}}},
                     {{"BLOCK_SIZE >= 32 * num_warps",
                       [](const Config& config) { return config.at("BLOCK_SIZE") >= 32 * config.at("num_warps"); }}});
}

TEST(CandidatesOf, KeepsTheSpacesOrderAndConstraints) {
  const std::vector<Candidate> candidates = candidates_of(space());
  ASSERT_EQ(candidates.size(), 5U);
  EXPECT_EQ(to_string(candidates[0].config), "BLOCK_SIZE=64 num_warps=2");
  EXPECT_EQ(to_string(candidates[4].config), "BLOCK_SIZE=256 num_warps=4");
  EXPECT_EQ(candidates[0].lower_bound_us, 0);
  EXPECT_EQ(candidates[0].ruled_out, "");
}

TEST(CandidatesOf, AsksTheFilters) {
  CandidateFilters filters;
  filters.over_resources = [](const Config& config) {
    return config.at("BLOCK_SIZE") > 128 ? std::string("needs too many registers") : std::string();
  };
  filters.lower_bound_us = [](const Config& config) { return 1000.0 / static_cast<double>(config.at("BLOCK_SIZE")); };
  const std::vector<Candidate> candidates = candidates_of(space(), filters);
  EXPECT_EQ(candidates[0].ruled_out, "");
  EXPECT_EQ(candidates[4].ruled_out, "needs too many registers");
  EXPECT_DOUBLE_EQ(candidates[0].lower_bound_us, 15.625);
}

TEST(CandidatesOf, ASpaceWithoutTunablesHasOne) {
  const std::vector<Candidate> candidates = candidates_of(ConfigSpace());
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_TRUE(candidates[0].config.empty());
}

TEST(IndexOf, FindsOrNamesTheConfig) {
  const std::vector<Candidate> candidates = candidates_of(space());
  EXPECT_EQ(index_of(candidates, {{"BLOCK_SIZE", 128}, {"num_warps", 4}}), 2U);
  EXPECT_THAT(usage_message([&] { index_of(candidates, {{"BLOCK_SIZE", 64}, {"num_warps", 4}}); }),
              HasSubstr("'BLOCK_SIZE=64 num_warps=4' is not among the 5 candidates"));
}

}  // namespace
}  // namespace kiln::test
