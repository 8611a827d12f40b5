// `kiln bench --sweep` and `kiln run --debug` as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "tests/cli/kiln_process.hpp"
#include "tests/temporary_directory.hpp"

namespace kiln::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class SweepProcessTest : public testing::Test {
 protected:
  SweepProcessTest() { ::setenv("KILN_CACHE_DIR", directory_.file("cache").c_str(), 1); }
  void SetUp() override {
    if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  }
  /// stderr of a command line that must be refused, which is one line.
  static std::string refusal(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--device", "cpu"});
    const SubprocessResult result = run_kiln(arguments);
    EXPECT_EQ(result.exit_status, 2) << result.standard_error;
    EXPECT_THAT(result.standard_error, StartsWith("kiln: error: "));
    EXPECT_EQ(result.standard_error.find('\n'), result.standard_error.size() - 1) << result.standard_error;
    EXPECT_THAT(result.standard_output, IsEmpty());
    return result.standard_error;
  }
  test::TemporaryDirectory directory_;
};

TEST_F(SweepProcessTest, MeasuresEachSize) {
  const SubprocessResult result = run_kiln({"bench", "softmax", "--shape", "Nx64", "--attr", "dim=1", "--sweep",
                                            "N=4:16", "--device", "cpu", "--budget", "50ms", "--json"});
  ASSERT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, IsEmpty());
  const auto json = nlohmann::json::parse(result.standard_output);
  EXPECT_EQ(json["op"], "softmax");
  EXPECT_EQ(json["pattern"], "--shape Nx64 --attr dim=1");
  EXPECT_GT(json["peak_gb_s"], 0);
  EXPECT_EQ(json["peak_rates"].size(), 3U);
  EXPECT_EQ(json["ended"], "");
  ASSERT_EQ(json["points"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& point = json["points"][i];
    const int rows = 4 << i;
    EXPECT_EQ(point["value"], rows);
    EXPECT_EQ(point["data_bytes"], rows * 64 * 4 * 2);
    EXPECT_GT(point["median_us"], 0);
    EXPECT_NEAR(point["gb_s"].get<double>() / json["peak_gb_s"].get<double>(), point["share_of_peak"].get<double>(),
                1e-9);
    EXPECT_THAT(point["inputs"].get<std::string>(), HasSubstr(std::to_string(rows) + ", 64)"));
  }
}

TEST_F(SweepProcessTest, RefusesBeforeAnythingIsMeasured) {
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "N=8:4"}), HasSubstr("4 is below 8"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "many"}), HasSubstr("a range is LOW:HIGH"));
  EXPECT_THAT(refusal({"bench", "add", "--shape", "4x4", "--sweep"}), HasSubstr("write N in its place"));
  EXPECT_THAT(refusal({"bench", "add", "--shape", "Nx4", "--shape", "3xN", "--sweep", "N=1:8"}),
              HasSubstr("broadcast"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "N=256G:512G"}), HasSubstr("free the sweep uses at most 80%"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--against", "default"}), HasSubstr("leave --against out"));
  EXPECT_THAT(refusal({"bench", "add", "--shape", "4", "--plot", "x.png"}), HasSubstr("give --sweep too"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--plot", "x.jpg"}), HasSubstr("ends in .png"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--plot", directory_.file("absent/x.png")}),
              HasSubstr("there is no folder"));
  const std::string folder = directory_.file("folder.png");
  std::filesystem::create_directory(folder);
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--plot", folder}), HasSubstr("it is a folder"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--budget", "0s"}), HasSubstr("--budget"));
  EXPECT_THAT(refusal({"bench", "add", "--sweep", "--config", "BLOCK_SIZE=3"}), HasSubstr("BLOCK_SIZE"));
}

TEST_F(SweepProcessTest, ADrawingThatFailsLosesNoNumbers) {
  const std::string python = directory_.file("python3");
  std::ofstream(python) << "#!/bin/sh\n[ \"$2\" = 'import matplotlib' ] || { echo 'no ink' >&2; exit 1; }\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", (directory_.path().string() + ":" + path).c_str(), 1);
  const SubprocessResult result = run_kiln({"bench", "neg", "--sweep", "N=64:64", "--device", "cpu", "--budget", "20ms",
                                            "--json", "--plot", directory_.file("x.png")});
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.standard_error, HasSubstr("no ink"));
  EXPECT_EQ(nlohmann::json::parse(result.standard_output)["points"].size(), 1U);
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
  const std::vector<std::string> compile = {"run",     "matmul",   "--shape", "512x512",  "--shape",
                                            "512x512", "--device", "cpu",     "--repeat", "1"};
  ASSERT_EQ(run_kiln(compile).exit_status, 0);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.command);
    const std::string script = "\"$0\" " + c.command + " --device cpu --json & pid=$!\nsleep " + c.seconds +
                               "\nkill -" + c.signal + " $pid\nwait $pid";
    const auto result = run_subprocess({"sh", "-c", script, kiln_program()});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_status, c.status) << result->standard_error;
    const auto json = nlohmann::json::parse(result->standard_output);
    EXPECT_GE(json[c.measured].size(), 1U);
    EXPECT_THAT(nlohmann::json::parse(result->standard_error)["note"].get<std::string>(), StartsWith("interrupted"));
  }
}

TEST_F(SweepProcessTest, DebugShowsOneCall) {
  const SubprocessResult result =
      run_kiln({"run", "add", "--shape", "100x3", "--shape", "3", "--device", "cpu", "--debug"});
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error, IsEmpty());
  EXPECT_THAT(
      result.standard_output,
      AllOf(HasSubstr("input x"), HasSubstr("f32 (100, 3) on cpu, strides (3, 1), contiguous, at 0x"),
            HasSubstr("no NaN, no Inf"), HasSubstr("output out"), HasSubstr("compiled in"), HasSubstr("first call"),
            HasSubstr("warm call"), HasSubstr("reference"), HasSubstr("memory"), Not(HasSubstr("FAILED"))));
  const SubprocessResult as_json = run_kiln({"run", "add", "--shape", "4", "--device", "cpu", "--debug", "--json"});
  EXPECT_EQ(as_json.exit_status, 2);
  EXPECT_THAT(as_json.standard_error, HasSubstr("leave --json out"));
  EXPECT_THAT(refusal({"run", "add", "--shape", "4", "--debug", "--output", "x.npy"}), HasSubstr("leave --output out"));
  EXPECT_THAT(refusal({"run", "add", "--shape", "4", "--debug", "--repeat", "10"}), HasSubstr("leave --repeat out"));
  EXPECT_THAT(refusal({"run", "add", "--shape", "4", "--shape", "5", "--debug"}), HasSubstr("(5)"));
}

}  // namespace
}  // namespace kiln::cli
