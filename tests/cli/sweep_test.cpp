// The parts of `kiln bench --sweep` that measure nothing: ranges, patterns, and what points say together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/sweep_pattern.hpp"
#include "cli/sweep_range.hpp"
#include "cli/sweep_report.hpp"
#include "core/errors.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(SweepRangeTest, ReadsBothForms) {
  const SweepRange extents = parse_sweep_range("N=1:64K");
  EXPECT_EQ(extents.variable, "N");
  EXPECT_EQ(extents.low, 1);
  EXPECT_EQ(extents.high, 65536);
  const SweepRange bytes = parse_sweep_range("1K:256M");
  EXPECT_EQ(bytes.variable, "");
  EXPECT_EQ(bytes.low, 1024);
  EXPECT_EQ(bytes.high, std::int64_t{256} << 20);
  EXPECT_EQ(parse_sweep_range("ROWS_2=7:7").variable, "ROWS_2");
  EXPECT_THAT(parse_sweep_range("N=300,1K,7,300").listed, ElementsAre(7, 300, 1024)) << "growing, each once";
  EXPECT_THAT(parse_sweep_range("N=4").listed, ElementsAre(4));
}

TEST(SweepRangeTest, RefusesOthers) {
  for (const char* const text : {"",      "1",     "1:",      ":4",    "N=",     "N=1:2:3", "N=1,",
                                 "N=,1",  "N=0,1", "N=1,2:3", "1,2",   "n=1:4",  "1N=1:4",  "=1:4",
                                 "N=0:4", "0:1K",  "N=8:4",   "2M:1M", "N=-1:4", "N=1:4Q",  "N=1:99999999999999999999",
                                 "add"})
    EXPECT_THAT(test::usage_message([&] { parse_sweep_range(text); }),
                test::Says("--sweep '" + std::string(text) + "'", "like N=1:64K"))
        << text;
  EXPECT_THAT(test::usage_message([] { parse_sweep_range("N=1:99999999999999999999"); }),
              HasSubstr("'99999999999999999999' is beyond 64 bits"));
  EXPECT_THAT(test::usage_message([] { parse_sweep_range("N=1:9999999999T"); }), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(test::usage_message([] { parse_sweep_range("N=1:4Q"); }), HasSubstr("'4Q' is not a number"));
}

TEST(SweepRangeTest, ValuesDouble) {
  const auto bytes_of = [](std::int64_t value) { return 12.0 * static_cast<double>(value); };
  EXPECT_THAT(sweep_values(parse_sweep_range("N=3:50"), bytes_of), ElementsAre(3, 6, 12, 24, 48));
  EXPECT_THAT(sweep_values(parse_sweep_range("N=5:5"), bytes_of), ElementsAre(5));
  EXPECT_THAT(sweep_values(parse_sweep_range("N=100,5"), bytes_of), ElementsAre(5, 100));
  EXPECT_THAT(sweep_values(parse_sweep_range("N=4611686018427387904:9223372036854775807"), bytes_of).size(), 1);
  EXPECT_THAT(sweep_values(parse_sweep_range("40:200"), bytes_of), ElementsAre(4, 8, 16));
  EXPECT_THAT(test::usage_message([&] { sweep_values(parse_sweep_range("100:150"), bytes_of); }),
              HasSubstr("no power of two makes a call of so many bytes"));
  const auto square = [](std::int64_t value) {
    if (value < 4 || value > 1000) throw_value_error("not so");
    return static_cast<double>(value * value);
  };
  EXPECT_THAT(sweep_values(parse_sweep_range("1:300"), square), ElementsAre(4, 8, 16));
}

SweepPattern pattern_of(const CallText& call, const std::string& variable = "") {
  return sweep_pattern(Registry::process().get(call.op), call, variable);
}

TEST(SweepPatternTest, ReplacesTheLetter) {
  const SweepPattern pattern = pattern_of({"rms_norm", {"Nx4096", "4096"}, {"bf16"}, {}});
  EXPECT_EQ(pattern.variable, "N");
  EXPECT_EQ(pattern.at(12).shapes, (std::vector<std::string>{"12x4096", "4096"}));
  EXPECT_EQ(to_string(pattern), "--shape Nx4096 --shape 4096 --dtype bf16");
  EXPECT_EQ(pattern_of({"matmul", {"MxM"}, {}, {}}).at(8).shapes[0], "8x8");
  EXPECT_EQ(pattern_of({"uniform", {}, {}, {"size=Nx4", "seed=1"}}).at(8).attributes,
            (std::vector<std::string>{"size=8x4", "seed=1"}));
  EXPECT_EQ(pattern_of({"uniform", {}, {}, {"size=ROWSx4"}}, "ROWS").at(8).attributes[0], "size=8x4");
}

TEST(SweepPatternTest, FindsUsualSizes) {
  EXPECT_EQ(to_string(pattern_of({"add", {}, {}, {}})), "--shape N");
  EXPECT_EQ(to_string(pattern_of({"add", {}, {"f16"}, {"alpha=2"}}, "K")), "--shape K --dtype f16 --attr alpha=2");
  EXPECT_EQ(to_string(pattern_of({"sum", {}, {}, {}})), "--shape Nx4096");
  EXPECT_EQ(to_string(pattern_of({"matmul", {}, {}, {}})), "--shape NxN");
  EXPECT_EQ(to_string(pattern_of({"rms_norm", {}, {}, {}})), "--shape Nx4096");
  for (const std::string& name : Registry::process().names()) {
    if (Registry::process().get(name).inputs.empty()) continue;
    SweepPattern pattern;
    EXPECT_NO_THROW(pattern = pattern_of({name, {}, {}, {}})) << name;
    EXPECT_THAT(to_string(pattern), test::Says("--shape", "N")) << name;
  }
}

TEST(SweepPatternTest, RefusesWhatDoesNotGrow) {
  EXPECT_THAT(test::usage_message([] { pattern_of({"add", {"4x4"}, {}, {}}); }), HasSubstr("write N in its place"));
  EXPECT_THAT(test::usage_message([] { pattern_of({"add", {"Nx4"}, {}, {}}, "M"); }),
              HasSubstr("write M in its place"));
  EXPECT_THAT(test::usage_message([] { pattern_of({"matmul", {"MxK", "KxN"}, {}, {}}); }), HasSubstr("K and M and N"));
  EXPECT_THAT(test::usage_message([] { pattern_of({"uniform", {}, {}, {}}); }), HasSubstr("--attr size=N"));
  EXPECT_THAT(test::usage_message([] { pattern_of({"uniform", {}, {}, {"size=4"}}); }), HasSubstr("--attr size=N"));
}

/// A device of 100 GB/s, 1 TFLOP/s, and a cache of 1000 bytes.
struct FakeDevice {
  FakeDevice() {
    MeasuredRate rate;
    rate.op = "sum";
    rate.call = "f32 (100000)";
    rate.bytes = 1e5;
    rate.best_us = rate.median_us = 1;
    peak.bandwidth_gb_s = 100;
    peak.cache_bytes = 1000;
    peak.exceeds_cache = true;
    peak.rates = {rate};
    matmul.op = "matmul";
    matmul.flops = 1e6;
    matmul.best_us = matmul.median_us = 1;
  }
  SweepReport report(const std::vector<std::pair<double, double>>& bytes_and_us) const {
    SweepReport report;
    report.op = "copy";
    report.variable = "N";
    report.peak = &peak;
    for (const auto& [bytes, us] : bytes_and_us) {
      SweepPoint point;
      point.value = static_cast<std::int64_t>(bytes / 8);
      point.data_bytes = point.bytes = bytes;
      point.median_us = us;
      point.interval_us = {us, us};
      point.samples = 20;
      report.points.push_back(point);
    }
    return report;
  }
  MeasuredPeak peak;
  MeasuredRate matmul;
};

TEST(SweepReportTest, FindsWhereRatesSaturate) {
  const FakeDevice device;
  // 100, 200, 400, 800 bytes in a launch's time, then 70, 92, 95 GB/s.
  const SweepReport report =
      device.report({{100, 1}, {200, 1.1}, {400, 1.2}, {800, 1.2}, {140000, 2}, {184000, 2}, {190000, 2}});
  const SweepSummary summary = summarize_sweep(report);
  EXPECT_EQ(summary.launch_bound, 3U);
  EXPECT_EQ(summary.saturated, 5U);
  EXPECT_EQ(summary.best, 6U);
  EXPECT_EQ(summary.beyond_caches, 6U);
  EXPECT_FALSE(summary.is_compute_bound);
  EXPECT_THAT(to_text(report), AllOf(HasSubstr("saturates at N=23000 (179.7 KiB): 92 GB/s, 92.0% of the peak"),
                                     HasSubstr("up to N=100 (800 B) the time is that of a launch, 1.20 us"),
                                     HasSubstr("measured peak: 100 GB/s by sum f32 (100000)"),
                                     Not(HasSubstr("TFLOP/s")), Not(HasSubstr("caches")), Not(HasSubstr("ends here"))));
  const nlohmann::ordered_json json = to_json(report);
  EXPECT_EQ(json["points"].size(), 7U);
  EXPECT_DOUBLE_EQ(json["points"][6]["share_of_peak"], 0.95);
  EXPECT_EQ(json["saturated"], 23000);
  EXPECT_EQ(json["launch_bound"], 100);
  EXPECT_FALSE(json["points"][0].contains("share_of_matmul_peak"));
}

TEST(SweepReportTest, TellsCachesFromMemory) {
  const FakeDevice device;
  const SweepReport in_caches = device.report({{100, 0.001}, {800, 0.002}});
  EXPECT_FALSE(summarize_sweep(in_caches).beyond_caches);
  EXPECT_FALSE(summarize_sweep(in_caches).launch_bound);
  EXPECT_THAT(to_text(in_caches), test::Says("400.0% of the peak", "above 100% the data is in caches",
                                             "no size is larger than the caches, 1000 B"));
  SweepReport both = device.report({{800, 0.002}, {1600, 0.02}});
  both.ended = "no more memory";
  EXPECT_THAT(to_text(both),
              test::Says("best from memory at N=200 (1.6 KiB): 80 GB/s", "the sweep ends here: no more memory"));
}

TEST(SweepReportTest, ComputeIsRatedByMatmul) {
  const FakeDevice device;
  SweepReport report = device.report({{1000, 1}, {2000, 10}, {4000, 100}});
  report.matmul_peak = &device.matmul;
  for (SweepPoint& point : report.points) point.flops = 20 * point.bytes;
  report.points[2].flops = 8e7;
  const SweepSummary summary = summarize_sweep(report);
  EXPECT_TRUE(summary.is_compute_bound);
  EXPECT_EQ(summary.best, 2U);
  EXPECT_EQ(summary.saturated, 2U);
  EXPECT_THAT(to_text(report), test::Says("TFLOP/s", "best at N=500 (3.9 KiB): 0.8 TFLOP/s, 80.0% of matmul's"));
  EXPECT_DOUBLE_EQ(to_json(report)["points"][2]["share_of_matmul_peak"], 0.8);
}

TEST(SweepReportTest, OnePointIsEnough) {
  const FakeDevice device;
  const SweepSummary summary = summarize_sweep(device.report({{100, 1}}));
  EXPECT_EQ(summary.best, 0U);
  EXPECT_EQ(summary.saturated, 0U);
  EXPECT_FALSE(summary.launch_bound);
}

}  // namespace
}  // namespace kiln::cli
