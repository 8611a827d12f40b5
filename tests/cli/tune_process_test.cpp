// `kiln tune` as a process: what it leaves for the next one, and what it says to those who get it wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/subprocess.hpp"
#include "tests/cli/kiln_process.hpp"
#include "tests/temporary_directory.hpp"

namespace kiln::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class TuneProcessTest : public testing::Test {
 protected:
  TuneProcessTest() { ::setenv("KILN_CACHE_DIR", directory_.file("cache").c_str(), 1); }
  ~TuneProcessTest() override {
    for (const char* variable : {"KILN_TUNING", "KILN_TRACE"}) ::unsetenv(variable);
  }

  static SubprocessResult kiln(std::vector<std::string> arguments) { return run_kiln(std::move(arguments)); }
  static json json_of(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const SubprocessResult result = kiln(arguments);
    EXPECT_EQ(result.exit_status, 0) << result.standard_error;
    EXPECT_THAT(result.standard_error, IsEmpty());
    return json::parse(result.standard_output);
  }
  /// neg has six configs on the CPU, which take milliseconds to compile.
  static std::vector<std::string> tune_neg(int elements) {
    return {"tune", "neg", "--shape", std::to_string(elements), "--device", "cpu", "--budget", "3s"};
  }
  static json run_neg(int elements) {
    return json_of({"run", "neg", "--shape", std::to_string(elements), "--device", "cpu", "--repeat", "1"});
  }
  /// What is wrong with `kiln tune ARGUMENTS --device cpu`: one line, but for the pointer to --help.
  static std::string problem_with(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tune");
    arguments.insert(arguments.end(), {"--device", "cpu"});
    const SubprocessResult result = kiln(arguments);
    EXPECT_EQ(result.exit_status, 2) << testing::PrintToString(arguments);
    EXPECT_THAT(result.standard_output, IsEmpty());
    EXPECT_THAT(result.standard_error, StartsWith("kiln: error: "));
    const std::string first = result.standard_error.substr(0, result.standard_error.find('\n') + 1);
    EXPECT_THAT(result.standard_error.substr(first.size()), testing::AnyOf("", "see 'kiln tune --help'\n"));
    return first;
  }
  std::string save(const std::string& file, const std::string& text) const {
    std::ofstream(directory_.file(file)) << text;
    return directory_.file(file);
  }
  test::TemporaryDirectory directory_;
};

/// Tests that run kernels on the CPU, which a build without the CPU target cannot.
class TuneCpuTest : public TuneProcessTest {
 protected:
  void SetUp() override {
    if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  }
};

TEST_F(TuneProcessTest, WrongCommandLinesSayWhatWouldBeRight) {
  EXPECT_THAT(problem_with({}), AllOf(HasSubstr("name an op"), HasSubstr("--from-trace")));
  EXPECT_THAT(problem_with({"mtmul"}), HasSubstr("'matmul'"));
  EXPECT_THAT(problem_with({"add", "--shape", "fourxfour"}), HasSubstr("like 4096x4096"));
  EXPECT_THAT(problem_with({"matmul", "--shape", "4x5", "--shape", "4x4"}), HasSubstr("(4, 5)"));
  EXPECT_THAT(problem_with({"add", "--shape", "0x4"}), HasSubstr("above 0"));
  EXPECT_THAT(problem_with({"matmul", "--shape", "4x4", "--dtype", "bool"}), HasSubstr("its dtypes: f64, f32"));
  EXPECT_THAT(problem_with({"matmul", "--shape", "4x4", "--dtype", "float33"}), HasSubstr("float33"));
  EXPECT_THAT(problem_with({"matmul", "--dtype", "bf16"}), HasSubstr("give --shape"));
  EXPECT_THAT(problem_with({"matmul", "--shape", "4x4", "--attr", "gamma=1"}), HasSubstr("it has alpha"));
  for (const std::string budget : {"0", "-1", "0s", "soon", "nan", "inf", "1e400", "5 parsecs"})
    EXPECT_THAT(problem_with({"add", "--shape", "4", "--budget=" + budget}), HasSubstr("--budget")) << budget;
  EXPECT_THAT(problem_with({"add", "--shape", "4", "--strategy", "clever"}), HasSubstr("exhaustive"));
  EXPECT_THAT(problem_with({"add", "--shape", "4", "--measure", "graph"}), HasSubstr("GPU"));
  EXPECT_THAT(problem_with({"add", "--shape", "4", "--l2", "warm"}), HasSubstr("flushed"));
  EXPECT_THAT(problem_with({"add", "--shape", "4", "--plot", "times.jpg"}), HasSubstr(".png"));
  EXPECT_THAT(problem_with({"add", "--shape", "4", "--plot", directory_.file("absent/x.png")}), HasSubstr("absent"));
  EXPECT_THAT(problem_with({"all", "--shape", "4"}), HasSubstr("one op"));
  const SubprocessResult elsewhere = kiln({"tune", "add", "--shape", "4", "--device", "cuda:77"});
  EXPECT_EQ(elsewhere.exit_status, 2);
  EXPECT_THAT(elsewhere.standard_error, HasSubstr("cuda:77"));
}

TEST_F(TuneProcessTest, WrongFilesAreNamedWithTheirLine) {
  const auto shapes = [&](const std::string& file) { return problem_with({"matmul", "--shapes-file", file}); };
  const auto trace = [&](const std::string& file) { return problem_with({"--from-trace", file}); };
  EXPECT_THAT(shapes(directory_.file("absent")), HasSubstr("absent"));
  EXPECT_THAT(shapes(directory_.path()), HasSubstr("cannot be read"));
  EXPECT_THAT(shapes(save("empty", "# nothing but this\n\n")), HasSubstr("has no call"));
  EXPECT_THAT(shapes(save("dtype", "4x4 4x4 bf16\n4x4 4x4 bf17\n")), AllOf(HasSubstr("line 2"), HasSubstr("'bf17'")));
  EXPECT_THAT(shapes(save("extents", "\n4x4 5x4\n")), AllOf(HasSubstr("line 2"), HasSubstr("(5, 4)")));
  EXPECT_THAT(problem_with({"--shapes-file", save("fine", "4x4\n")}), HasSubstr("one op"));

  EXPECT_THAT(trace(directory_.file("absent")), HasSubstr("absent"));
  EXPECT_THAT(trace(directory_.path()), HasSubstr("folder"));
  EXPECT_THAT(trace(save("empty", "")), HasSubstr("KILN_TRACE"));
  EXPECT_THAT(trace(save("prose", "hello\n")), HasSubstr("line 1"));
  const std::string elsewhere =
      save("elsewhere", R"({"op":"neg","device":"cuda","inputs":[{"dtype":"f32","shape":[4]}],"attributes":{}})");
  EXPECT_THAT(trace(elsewhere), AllOf(HasSubstr("on cpu"), HasSubstr("neg on cuda")));
  EXPECT_THAT(problem_with({"--from-trace", elsewhere, "--shape", "4"}), HasSubstr("--shape"));
  EXPECT_THAT(problem_with({"no_such_op", "--from-trace", elsewhere}), HasSubstr("no_such_op"));
}

TEST_F(TuneCpuTest, TheNextProcessUsesWhatWasFoundAndCompilesNothing) {
  const SubprocessResult tuned = kiln(tune_neg(5000));
  ASSERT_EQ(tuned.exit_status, 0) << tuned.standard_error;
  EXPECT_THAT(tuned.standard_output,
              AllOf(HasSubstr("neg f32 (5000)"), HasSubstr("95% interval"), HasSubstr("6 of 6 configs measured"),
                    HasSubstr("recorded in " + directory_.file("cache/tuning"))));
  EXPECT_THAT(tuned.standard_error, IsEmpty());
  const json artifacts = json_of({"cache", "stats"})["artifacts"];

  const json run = run_neg(5000);
  EXPECT_EQ(run["config_source"], "tuned");
  ASSERT_EQ(run["kernels"].size(), 1U);
  EXPECT_EQ(run["kernels"][0]["origin"], "disk");
  EXPECT_EQ(json_of({"cache", "stats"})["artifacts"], artifacts);

  EXPECT_EQ(run_neg(5001)["config_source"], "default");
  ::setenv("KILN_TUNING", "nearest", 1);
  EXPECT_EQ(run_neg(5000)["config_source"], "tuned");
  EXPECT_EQ(run_neg(5001)["config_source"], "tuned for 5000");
  EXPECT_EQ(run_neg(5001)["config"], run["config"]);
  ::setenv("KILN_TUNING", "off", 1);
  EXPECT_EQ(run_neg(5000)["config_source"], "default");
  ::setenv("KILN_TUNING", "sometimes", 1);
  const SubprocessResult wrong = kiln({"run", "neg", "--shape", "5000", "--device", "cpu"});
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_THAT(wrong.standard_error, AllOf(HasSubstr("sometimes"), HasSubstr("first_use")));
}

TEST_F(TuneCpuTest, EightProcessesAtOnceLoseNothing) {
  std::vector<std::thread> processes;
  for (int i = 0; i < 8; ++i)
    processes.emplace_back([i] {
      std::vector<std::string> arguments = tune_neg(1000 + i);
      arguments.back() = "1s";
      const SubprocessResult result = kiln(arguments);
      EXPECT_EQ(result.exit_status, 0) << result.standard_error;
      EXPECT_THAT(result.standard_error, IsEmpty());
    });
  for (std::thread& process : processes) process.join();
  EXPECT_EQ(json_of({"cache", "list", "--tuning"}).size(), 8U);
  EXPECT_EQ(json_of({"cache", "verify"})["tuning"]["damaged"], json::array());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(run_neg(1000 + i)["config_source"], "tuned") << i;
}

TEST_F(TuneCpuTest, ASignalKeepsWhatWasFound) {
  const std::string shapes = save("shapes", "256x256 256x256\n256x128 128x256\n");
  // Six artifacts: the default and some others have been measured, hundreds have not.
  const std::string interrupted = R"sh("$0" tune matmul --shapes-file "$1" --device cpu --budget 20s & tuning=$!
for turn in $(seq 400); do
  [ "$(find "$KILN_CACHE_DIR" -type f -size +1k | wc -l)" -ge 6 ] && break
  sleep 0.05
done
kill -$2 $tuning
wait $tuning)sh";
  for (const auto& [signal, status] :
       std::vector<std::pair<std::string, int>>{{"INT", 130}, {"TERM", 143}, {"HUP", 129}}) {
    SCOPED_TRACE(signal);
    const std::string cache = directory_.file("cache-" + signal);
    ::setenv("KILN_CACHE_DIR", cache.c_str(), 1);
    const auto result = run_subprocess({"sh", "-c", interrupted, kiln_program(), shapes, signal});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_status, status);
    EXPECT_THAT(result->standard_error,
                AllOf(HasSubstr("interrupted"), HasSubstr("1 call not tuned"), HasSubstr("the same command")));
    EXPECT_THAT(result->standard_output, AllOf(HasSubstr("stopped before"), HasSubstr("recorded in")));
    const json run =
        json_of({"run", "matmul", "--shape", "256x256", "--shape", "256x256", "--device", "cpu", "--repeat", "1"});
    EXPECT_EQ(run["config_source"], "tuned");
    EXPECT_EQ(run["kernels"][0]["origin"], "disk");
  }
}

TEST_F(TuneCpuTest, ADatabaseThatCannotBeWrittenIsAFailure) {
  std::filesystem::create_directory(directory_.file("cache"));
  std::ofstream(directory_.file("cache/tuning")) << "a file in the folder's place";
  const SubprocessResult tuned = kiln(tune_neg(700));
  EXPECT_EQ(tuned.exit_status, 1);
  EXPECT_THAT(tuned.standard_output, AllOf(HasSubstr("configs measured"), Not(HasSubstr("recorded in"))));
  EXPECT_THAT(tuned.standard_error, AllOf(StartsWith("kiln: error: what was found is not recorded"),
                                          HasSubstr(directory_.file("cache/tuning"))));
}

TEST_F(TuneCpuTest, VariablesThatMakeNoSenseAreRefused) {
  const auto problem = [&](const char* variable, const std::string& value) {
    ::setenv(variable, value.c_str(), 1);
    const SubprocessResult result = kiln({"run", "neg", "--shape", "5", "--device", "cpu", "--repeat", "1"});
    ::unsetenv(variable);
    EXPECT_EQ(result.exit_status, 2) << variable << value;
    EXPECT_THAT(result.standard_output, IsEmpty());
    EXPECT_THAT(result.standard_error, AllOf(StartsWith("kiln: error: "), HasSubstr(variable), HasSubstr(value)));
    return result.standard_error;
  };
  for (const char* policy : {"use", "first_use"}) {
    ::setenv("KILN_TUNING", policy, 1);
    for (const char* budget : {"abc", "nan", "-5", "0", "inf"})
      EXPECT_THAT(problem("KILN_TUNING_BUDGET", budget), HasSubstr("seconds above 0"));
    EXPECT_THAT(problem("KILN_TRACE", directory_.file("absent/trace")), HasSubstr("No such file"));
    EXPECT_THAT(problem("KILN_TRACE", "/dev/full"), HasSubstr("No space"));
    EXPECT_THAT(problem("KILN_TRACE", directory_.path()), HasSubstr("directory"));
  }
  ::unsetenv("KILN_TUNING");
  for (const char* threads : {"abc", "0", "-1"}) problem("KILN_NUM_THREADS", threads);
  for (const char* size : {"abc", "-1", "5X"}) problem("KILN_CACHE_SIZE", size);
  problem("KILN_DEBUG", "maybe");
  problem("KILN_TUNING", "sometimes");
  problem("KILN_SOURCE_DIR", directory_.file("absent"));
}

TEST_F(TuneCpuTest, ATraceIsTunedAndGoneOnWith) {
  const std::string trace = directory_.file("calls.jsonl");
  ::setenv("KILN_TRACE", trace.c_str(), 1);
  run_neg(900);
  run_neg(901);
  run_neg(900);  // another process: the line is there twice
  json_of({"run", "add", "--shape", "30x40", "--shape", "40", "--attr", "alpha=2", "--device", "cpu"});
  ::unsetenv("KILN_TRACE");

  const auto tune = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"tune", "--from-trace", trace, "--device", "cpu", "--budget", "3s"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const json negs = json_of(tune({"neg"}));
  ASSERT_EQ(negs.size(), 2U);
  EXPECT_EQ(negs[0]["shapes"], "900");
  EXPECT_EQ(negs[1]["shapes"], "901");
  EXPECT_EQ(negs[0]["tried"].size(), 6U);

  const SubprocessResult all = kiln(tune({}));
  EXPECT_EQ(all.exit_status, 0) << all.standard_error;
  EXPECT_THAT(all.standard_output, AllOf(HasSubstr("[1/3] neg f32 (900)"), HasSubstr("--retune measures again"),
                                         HasSubstr("[3/3] add f32 (30, 40), f32 (40), alpha=2")));
  const json add = json_of({"run", "add", "--shape", "30x40", "--shape", "40", "--attr", "alpha=2", "--device", "cpu"});
  EXPECT_EQ(add["config_source"], "tuned");
  for (const json& report : json_of(tune({"neg", "--retune"})))
    EXPECT_THAT(report["verdict"].get<std::string>(), Not(HasSubstr("ago")));
}

}  // namespace
}  // namespace kiln::cli
