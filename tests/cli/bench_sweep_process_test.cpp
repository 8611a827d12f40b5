// `kiln bench --sweep` and `kiln run --debug` as a user meets them.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/kiln_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

using nlohmann::json;

class SweepProcessTest : public KilnCpuTest {
 protected:
  /// stderr of a command line that must be refused, which is one line.
  static std::string refusal(const Words& arguments) {
    const std::string error = error_of(2, arguments + "--device cpu");
    EXPECT_EQ(error.find('\n'), error.size() - 1) << error;
    return error;
  }
};

TEST_F(SweepProcessTest, MeasuresEachSize) {
  const json sweep = json_of("bench softmax --shape Nx64 --attr dim=1 --sweep N=4:16 --device cpu --budget 50ms");
  EXPECT_EQ(sweep["op"], "softmax");
  EXPECT_EQ(sweep["pattern"], "--shape Nx64 --attr dim=1");
  EXPECT_GT(sweep["peak_gb_s"], 0);
  EXPECT_EQ(sweep["peak_rates"].size(), 3U);
  EXPECT_EQ(sweep["ended"], "");
  ASSERT_EQ(sweep["points"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& point = sweep["points"][i];
    const int rows = 4 << i;
    EXPECT_EQ(point["value"], rows);
    EXPECT_EQ(point["data_bytes"], rows * 64 * 4 * 2);
    EXPECT_GT(point["median_us"], 0);
    EXPECT_NEAR(point["gb_s"].get<double>() / sweep["peak_gb_s"].get<double>(), point["share_of_peak"].get<double>(),
                1e-9);
    EXPECT_THAT(point["inputs"].get<std::string>(), HasSubstr(std::to_string(rows) + ", 64)"));
  }
}

TEST_F(SweepProcessTest, SizesAreListedAndEndWithTheBudget) {
  const json sweep = json_of("bench softmax --shape Nx64 --attr dim=1 --sweep N=7,100,7 --device cpu --budget 20ms");
  ASSERT_EQ(sweep["points"].size(), 2U);
  EXPECT_EQ(sweep["points"][0]["value"], 7);
  EXPECT_EQ(sweep["points"][1]["value"], 100);
  EXPECT_GT(sweep["points"][1]["tflop_s"], 0);
  EXPECT_THAT(sweep["points"][1]["config"].get<std::string>(), HasSubstr("="));

  const json ended = json_of(
      "bench softmax --shape Nx64 --attr dim=1 --sweep N=4:64 --device cpu --budget 20ms "
      "--sweep-budget 1ms");
  EXPECT_EQ(ended["points"].size(), 1U) << "the first is always measured";
  EXPECT_THAT(ended["ended"].get<std::string>(), Says("N=8: it would take about", "--sweep-budget gives more"));
}

TEST_F(SweepProcessTest, RefusesBeforeAnythingIsMeasured) {
  EXPECT_THAT(refusal("bench add --sweep N=8:4"), HasSubstr("4 is below 8"));
  EXPECT_THAT(refusal("bench add --sweep many"), HasSubstr("a range is LOW:HIGH"));
  EXPECT_THAT(refusal("bench add --shape 4x4 --sweep"), HasSubstr("write N in its place"));
  EXPECT_THAT(refusal("bench add --shape Nx4 --shape 3xN --sweep N=1:8"), HasSubstr("broadcast"));
  EXPECT_THAT(refusal("bench add --sweep N=256G:512G"), HasSubstr("free the sweep uses at most 80%"));
  EXPECT_THAT(refusal("bench add --sweep --against default"), HasSubstr("leave --against out"));
  EXPECT_THAT(refusal("bench add --shape 4 --plot x.png"), HasSubstr("give --sweep too"));
  EXPECT_THAT(refusal("bench add --sweep --plot x.jpg"), HasSubstr("ends in .png"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--plot", directory_.file("absent/x.png")}),
              HasSubstr("there is no folder"));
  const std::string folder = directory_.file("folder.png");
  std::filesystem::create_directory(folder);
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--plot", folder}), HasSubstr("it is a folder"));
  EXPECT_THAT(refusal("bench add --sweep --budget 0s"), HasSubstr("--budget"));
  EXPECT_THAT(refusal("bench add --sweep --sweep-budget 0s"), HasSubstr("--sweep-budget"));
  EXPECT_THAT(refusal("bench add --shape 4 --sweep-budget 1s"), HasSubstr("give --sweep too"));
  EXPECT_THAT(refusal("bench add --sweep --config BLOCK_SIZE=3"), HasSubstr("BLOCK_SIZE"));
}

TEST_F(SweepProcessTest, ADrawingThatFailsLosesNoNumbers) {
  const std::string python = directory_.file("python3");
  std::ofstream(python) << "#!/bin/sh\n[ \"$2\" = 'import matplotlib' ] || { echo 'no ink' >&2; exit 1; }\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const ScopedVariable path("PATH", directory_.path().string() + ":" + ::getenv("PATH"));
  const SubprocessResult result = kiln({"bench", "neg", "--sweep", "N=64:64", "--device", "cpu", "--budget", "20ms",
                                        "--json", "--plot", directory_.file("x.png")});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.standard_error, HasSubstr("no ink"));
  EXPECT_EQ(json::parse(result.standard_output)["points"].size(), 1U);
}

TEST_F(SweepProcessTest, ASignalKeepsWhatWasMeasured) {
  struct Case {
    std::string command, signal;
    int status;
    const char *seconds, *measured;
  };
  // Neither is done when the signal comes: the largest product, and the reference on one thread, take seconds.
  const Case cases[] = {
      {"bench matmul --shape NxN --shape NxN --sweep N=64:4096 --budget 60s", "INT", 130, "10", "points"},
      {"bench matmul --shape 512x512 --shape 512x512 --against reference --budget 300s", "TERM", 143, "5",
       "contenders"},
  };
  ASSERT_EQ(kiln("run matmul --shape 512x512 --shape 512x512 --device cpu --repeat 1").exit_status, 0);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.command);
    const std::string script = "\"$0\" " + c.command + " --device cpu --json & pid=$!\nsleep " + c.seconds +
                               "\nkill -" + c.signal + " $pid\nwait $pid";
    const auto result = run_subprocess({"sh", "-c", script, kiln_program()});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_status, c.status) << result->standard_error;
    EXPECT_GE(json::parse(result->standard_output)[c.measured].size(), 1U);
    EXPECT_THAT(json::parse(result->standard_error)["note"].get<std::string>(), StartsWith("interrupted"));
  }
}

TEST_F(SweepProcessTest, DebugShowsOneCall) {
  const SubprocessResult result = kiln("run add --shape 100x3 --shape 3 --device cpu --debug");
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, IsEmpty());
  EXPECT_THAT(
      result.standard_output,
      AllOf(HasSubstr("input x"), HasSubstr("f32 (100, 3) on cpu, strides (3, 1), contiguous, at 0x"),
            HasSubstr("no NaN, no Inf"), HasSubstr("output out"), HasSubstr("compiled in"), HasSubstr("first call"),
            HasSubstr("warm call"), HasSubstr("reference"), HasSubstr("memory"), Not(HasSubstr("FAILED"))));
  EXPECT_THAT(kiln("run add --shape 4 --device cpu --debug --json").standard_error, HasSubstr("leave --json out"));
  EXPECT_EQ(kiln("run add --shape 4 --device cpu --debug --json").exit_status, 2);
  EXPECT_THAT(refusal("run add --shape 4 --debug --output x.npy"), HasSubstr("leave --output out"));
  EXPECT_THAT(refusal("run add --shape 4 --debug --repeat 10"), HasSubstr("leave --repeat out"));
  EXPECT_THAT(refusal("run add --shape 4 --shape 5 --debug"), HasSubstr("(5)"));
}

}  // namespace
}  // namespace kiln::test
