// `kiln tune` as a process: what it leaves for the next one, and what it says to those who get it wrong.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/subprocess.hpp"
#include "tests/support/kiln_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

using nlohmann::json;

/// Of either fixture: with what a build without the CPU target can do, or with all of it.
template <typename Fixture>
class TuneTest : public Fixture {
 protected:
  /// neg has six configs on the CPU, which take milliseconds to compile.
  static Words tune_neg(int elements) {
    return "tune neg --shape " + std::to_string(elements) + " --device cpu --budget 20s";
  }
  static json run_neg(int elements) {
    return Fixture::json_of("run neg --shape " + std::to_string(elements) + " --device cpu --repeat 1");
  }
  /// What is wrong with `kiln tune ARGUMENTS --device cpu`: one line, but for the pointer to --help.
  static std::string problem_with(const Words& arguments) {
    const std::string error = Fixture::error_of(2, "tune" + arguments + "--device cpu");
    const std::string first = error.substr(0, error.find('\n') + 1);
    EXPECT_THAT(error.substr(first.size()), AnyOf("", "see 'kiln tune --help'\n"));
    return first;
  }

 private:
  const ScopedVariable tuning_{"KILN_TUNING", {}}, trace_{"KILN_TRACE", {}};
};
using TuneProcessTest = TuneTest<KilnProcessTest>;
using TuneCpuTest = TuneTest<KilnCpuTest>;

TEST_F(TuneProcessTest, WrongCommandLinesSayWhatWouldBeRight) {
  EXPECT_THAT(problem_with({}), Says("name an op", "--from-trace"));
  EXPECT_THAT(problem_with("mtmul"), HasSubstr("'matmul'"));
  EXPECT_THAT(problem_with("add --shape fourxfour"), HasSubstr("like 4096x4096"));
  EXPECT_THAT(problem_with("matmul --shape 4x5 --shape 4x4"), HasSubstr("(4, 5)"));
  EXPECT_THAT(problem_with("add --shape 0x4"), HasSubstr("above 0"));
  EXPECT_THAT(problem_with("matmul --shape 4x4 --dtype bool"), HasSubstr("its dtypes: f64, f32"));
  EXPECT_THAT(problem_with("matmul --shape 4x4 --dtype float33"), HasSubstr("float33"));
  EXPECT_THAT(problem_with("matmul --dtype bf16"), HasSubstr("give --shape"));
  EXPECT_THAT(problem_with("matmul --shape 4x4 --attr gamma=1"), HasSubstr("it has alpha"));
  for (const std::string budget : {"0", "-1", "0s", "soon", "nan", "inf", "1e400", "5 parsecs"})
    EXPECT_THAT(problem_with({"add", "--shape", "4", "--budget=" + budget}), HasSubstr("--budget")) << budget;
  EXPECT_THAT(problem_with("add --shape 4 --strategy clever"), HasSubstr("exhaustive"));
  EXPECT_THAT(problem_with("add --shape 4 --measure graph"), HasSubstr("GPU"));
  EXPECT_THAT(problem_with("add --shape 4 --l2 warm"), HasSubstr("flushed"));
  EXPECT_THAT(problem_with("add --shape 4 --plot times.jpg"), HasSubstr(".png"));
  EXPECT_THAT(problem_with({"add", "--shape", "4", "--plot", directory_.file("absent/x.png")}), HasSubstr("absent"));
  EXPECT_THAT(problem_with("all --shape 4"), HasSubstr("one op"));
  const SubprocessResult elsewhere = kiln("tune add --shape 4 --device cuda:77");
  EXPECT_EQ(elsewhere.exit_status, 2);
  EXPECT_THAT(elsewhere.standard_error, HasSubstr("cuda:77"));
}

TEST_F(TuneProcessTest, WrongFilesAreNamedWithTheirLine) {
  const auto shapes = [&](const std::string& file) { return problem_with({"matmul", "--shapes-file", file}); };
  const auto trace = [&](const std::string& file) { return problem_with({"--from-trace", file}); };
  EXPECT_THAT(shapes(directory_.file("absent")), HasSubstr("absent"));
  EXPECT_THAT(shapes(directory_.path()), HasSubstr("cannot be read"));
  EXPECT_THAT(shapes(save("empty", "# nothing but this\n\n")), HasSubstr("has no call"));
  EXPECT_THAT(shapes(save("dtype", "4x4 4x4 bf16\n4x4 4x4 bf17\n")), Says("line 2", "'bf17'"));
  EXPECT_THAT(shapes(save("extents", "\n4x4 5x4\n")), Says("line 2", "(5, 4)"));
  EXPECT_THAT(problem_with({"--shapes-file", save("fine", "4x4\n")}), HasSubstr("one op"));

  EXPECT_THAT(trace(directory_.file("absent")), HasSubstr("absent"));
  EXPECT_THAT(trace(directory_.path()), HasSubstr("folder"));
  EXPECT_THAT(trace(save("empty", "")), HasSubstr("KILN_TRACE"));
  EXPECT_THAT(trace(save("prose", "hello\n")), HasSubstr("line 1"));
  const std::string elsewhere =
      save("elsewhere", R"({"op":"neg","device":"cuda","inputs":[{"dtype":"f32","shape":[4]}],"attributes":{}})");
  EXPECT_THAT(trace(elsewhere), Says("on cpu", "neg on cuda"));
  EXPECT_THAT(problem_with({"--from-trace", elsewhere, "--shape", "4"}), HasSubstr("--shape"));
  EXPECT_THAT(problem_with({"no_such_op", "--from-trace", elsewhere}), HasSubstr("no_such_op"));
}

TEST_F(TuneCpuTest, TheNextProcessUsesWhatWasFoundAndCompilesNothing) {
  const SubprocessResult tuned = kiln(tune_neg(5000));
  ASSERT_EQ(tuned.exit_status, 0) << tuned.standard_error;
  EXPECT_THAT(tuned.standard_output, Says("neg f32 (5000)", "95% interval", "10 of 10 configs measured",
                                          "recorded in " + directory_.file("cache/tuning")));
  EXPECT_THAT(tuned.standard_error, IsEmpty());
  const json artifacts = json_of("cache stats")["artifacts"];

  const json run = run_neg(5000);
  EXPECT_EQ(run["config_source"], "tuned");
  ASSERT_EQ(run["kernels"].size(), 1U);
  EXPECT_EQ(run["kernels"][0]["origin"], "disk");
  EXPECT_EQ(json_of("cache stats")["artifacts"], artifacts);

  EXPECT_EQ(run_neg(5001)["config_source"], "default");
  ::setenv("KILN_TUNING", "nearest", 1);
  EXPECT_EQ(run_neg(5000)["config_source"], "tuned");
  EXPECT_EQ(run_neg(5001)["config_source"], "tuned for 5000");
  EXPECT_EQ(run_neg(5001)["config"], run["config"]);
  ::setenv("KILN_TUNING", "off", 1);
  EXPECT_EQ(run_neg(5000)["config_source"], "default");
  ::setenv("KILN_TUNING", "sometimes", 1);
  const SubprocessResult wrong = kiln("run neg --shape 5000 --device cpu");
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_THAT(wrong.standard_error, Says("sometimes", "first_use"));
}

TEST_F(TuneCpuTest, EightProcessesAtOnceLoseNothing) {
  std::vector<std::thread> processes;
  for (int i = 0; i < 8; ++i)
    processes.emplace_back([i] {
      Words arguments = tune_neg(1000 + i);
      arguments.back() = "1s";
      const SubprocessResult result = kiln(arguments);
      EXPECT_EQ(result.exit_status, 0) << result.standard_error;
      EXPECT_THAT(result.standard_error, IsEmpty());
    });
  for (std::thread& process : processes) process.join();
  EXPECT_EQ(json_of("cache list --tuning").size(), 8U);
  EXPECT_EQ(json_of("cache verify")["tuning"]["damaged"], json::array());
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
    const ScopedVariable cache("KILN_CACHE_DIR", directory_.file("cache-" + signal));
    const auto result = run_subprocess({"sh", "-c", interrupted, kiln_program(), shapes, signal});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_status, status);
    EXPECT_THAT(result->standard_error, Says("interrupted", "1 call not tuned", "the same command"));
    EXPECT_THAT(result->standard_output, Says("stopped before", "recorded in"));
    const json run = json_of("run matmul --shape 256x256 --shape 256x256 --device cpu --repeat 1");
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
    const ScopedVariable scoped(variable, value);
    const std::string error = error_of(2, "run neg --shape 5 --device cpu --repeat 1");
    EXPECT_THAT(error, Says(variable, value));
    return error;
  };
  for (const char* policy : {"use", "first_use"}) {
    const ScopedVariable tuning("KILN_TUNING", policy);
    for (const char* budget : {"abc", "nan", "-5", "0", "inf"})
      EXPECT_THAT(problem("KILN_TUNING_BUDGET", budget), HasSubstr("seconds above 0"));
    EXPECT_THAT(problem("KILN_TRACE", directory_.file("absent/trace")), HasSubstr("No such file"));
    EXPECT_THAT(problem("KILN_TRACE", "/dev/full"), HasSubstr("No space"));
    EXPECT_THAT(problem("KILN_TRACE", directory_.path()), HasSubstr("directory"));
  }
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
  json_of("run add --shape 30x40 --shape 40 --attr alpha=2 --device cpu");
  ::unsetenv("KILN_TRACE");

  const auto tune = [&](const Words& more) {
    return "tune --from-trace " + trace + " --device cpu --budget 20s" + more;
  };
  const json negs = json_of(tune("neg"));
  ASSERT_EQ(negs.size(), 2U);
  EXPECT_EQ(negs[0]["shapes"], "900");
  EXPECT_EQ(negs[1]["shapes"], "901");
  EXPECT_EQ(negs[0]["tried"].size(), 10U);

  const SubprocessResult all = kiln(tune({}));
  EXPECT_EQ(all.exit_status, 0) << all.standard_error;
  EXPECT_THAT(all.standard_output,
              Says("[1/3] neg f32 (900)", "--retune measures again", "[3/3] add f32 (30, 40), f32 (40), alpha=2"));
  const json add = json_of("run add --shape 30x40 --shape 40 --attr alpha=2 --device cpu");
  EXPECT_EQ(add["config_source"], "tuned");
  for (const json& report : json_of(tune("neg --retune")))
    EXPECT_THAT(report["verdict"].get<std::string>(), Not(HasSubstr("ago")));
}

}  // namespace
}  // namespace kiln::test
