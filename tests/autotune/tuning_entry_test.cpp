#include "autotune/tuning_entry.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/errors.hpp"
#include "tests/support/tuned_entry.hpp"

namespace kiln::test {
namespace {

TEST(TuningEntryTest, EveryPartOfAKeyTellsEntriesApart) {
  const TuningKey key = tuned_key(64);
  EXPECT_EQ(hash_of(key), hash_of(tuned_key(64)));
  std::vector<TuningKey> others(9, key);
  others[0].device_model += " MIG 1g.18gb";
  others[1].processors = 16;
  others[2].op = "linear";
  others[3].variant = "sm90";
  others[4].dtypes = "f16, f16";
  others[5] = tuned_key(65);
  others[6].attributes.clear();
  others[7].kernel_hash = "0";
  others[8].space_hash = "0";
  for (const TuningKey& other : others) {
    EXPECT_NE(hash_of(key), hash_of(other)) << to_string(other);
    EXPECT_NE(key, other);
  }
}

TEST(TuningEntryTest, TextsOfAKeysParts) {
  constexpr DType kDTypes[] = {DType::bf16, DType::f32};
  EXPECT_EQ(dtypes_text(kDTypes), "bf16, f32");
  EXPECT_EQ(dtypes_text({}), "");
  EXPECT_EQ(attributes_text({{"keepdim", false}, {"dim", std::int64_t{-1}}, {"alpha", 2.0}}),
            "alpha=2.0, dim=-1, keepdim=false");
  EXPECT_EQ(to_string(tuned_key(64)), "matmul tile (bf16, bf16) 64x4096, 4096x1024; alpha=1.0, other='quo\"ted'");
  const ConfigSpace space({{"BLOCK", {64, 128}}}, {});
  EXPECT_EQ(space_hash(space).size(), 32U);
  EXPECT_NE(space_hash(space), space_hash(ConfigSpace({{"BLOCK", {64}}}, {})));
}

TEST(TuningEntryTest, DatesReadBack) {
  EXPECT_EQ(format_date(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_date(1795200000), "2026-11-20T18:40:00Z");
  for (const std::int64_t date : {std::int64_t{0}, std::int64_t{951782400}, std::int64_t{1795200059}})
    EXPECT_EQ(parse_date(format_date(date)), date);
  for (const char* text : {"", "2026-11-20", "2026-02-30T00:00:00Z", "2026-11-20T24:00:00Z", "2026-11-20T00:60:00Z",
                           "2026-11-20 00:00:00Z", "2026-11-20T00:00:00+01:00", "-026-11-20T00:00:00Z"})
    EXPECT_EQ(parse_date(text), std::nullopt) << text;
}

TEST(TuningEntryTest, IsMadeFromWhatATuningFound) {
  TuningResult result;
  result.candidates = {measured(config_of(64), 200), measured(config_of(32), 300), measured(config_of(128), 150)};
  result.candidates[1].outcome = Outcome::cut;
  result.candidates.emplace_back().config = config_of(512);  // never had its turn
  CandidateEvidence failed;
  failed.config = config_of(256);
  failed.outcome = Outcome::hung;
  failed.reason = "no answer in 2 s";
  result.candidates.push_back(failed);
  result.chosen = 2;
  result.default_index = 0;
  result.chosen_relative = {0.74, 0.76};
  const TuningEntry entry = make_entry(tuned_key(64), result);
  EXPECT_EQ(entry.config, config_of(128));
  EXPECT_EQ(entry.default_config, config_of(64));
  EXPECT_EQ(entry.relative, (Interval{0.74, 0.76}));
  ASSERT_EQ(entry.tried.size(), 4U);
  EXPECT_EQ(entry.tried[0].config, config_of(128));
  EXPECT_EQ(entry.tried[1].config, config_of(64));
  EXPECT_EQ(entry.tried[2].config, config_of(32));
  EXPECT_EQ(entry.tried[3].reason, "no answer in 2 s");
  ASSERT_NE(entry.evidence_of(config_of(128)), nullptr);
  EXPECT_EQ(entry.evidence_of(config_of(128))->median_us, 150);
  EXPECT_EQ(entry.evidence_of(config_of(256)), nullptr);
  EXPECT_EQ(entry.evidence_of(config_of(512)), nullptr);
}

TEST(MeasuringPolicyText, IsReadAsItIsWritten) {
  using Launch = MeasuringPolicy::Launch;
  using L2 = MeasuringPolicy::L2;
  for (const Launch launch : {Launch::eager, Launch::graph})
    for (const L2 l2 : {L2::hot, L2::flushed})
      EXPECT_EQ(parse_measuring_policy(to_string(MeasuringPolicy{launch, l2})), (MeasuringPolicy{launch, l2}));
  const MeasuringPolicy fallback{Launch::eager, L2::flushed};
  EXPECT_EQ(parse_measuring_policy("graph", fallback), (MeasuringPolicy{Launch::graph, L2::flushed}));
  EXPECT_EQ(parse_measuring_policy("hot", fallback), (MeasuringPolicy{Launch::eager, L2::hot}));
  EXPECT_EQ(parse_measuring_policy("", fallback), fallback);
  EXPECT_THROW(parse_measuring_policy("graph, warm"), UsageError);
}

}  // namespace
}  // namespace kiln::test
