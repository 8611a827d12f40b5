// What the commands measure where inputs select memory or work: that it is there, and that reports say what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/npy.hpp"
#include "compiler/compilers.hpp"
#include "core/subprocess.hpp"
#include "runtime/memory.hpp"
#include "tests/cli/kiln_process.hpp"
#include "tests/temporary_directory.hpp"

namespace kiln::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A dense tensor of these integers.
Tensor make_integers(const Dims& shape, const std::vector<std::int64_t>& values) {
  Tensor tensor = empty(shape, DType::i64, Device::cpu());
  std::copy(values.begin(), values.end(), tensor.data_as<std::int64_t>());
  return tensor;
}

class DrawnInputsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
    ::setenv("KILN_CACHE_DIR", directory_.file("cache").c_str(), 1);
  }

  static std::string output_of(std::vector<std::string> arguments, int status = 0) {
    arguments.insert(arguments.end(), {"--device", "cpu"});
    const SubprocessResult result = run_kiln(std::move(arguments));
    EXPECT_EQ(result.exit_status, status) << result.standard_error;
    return status == 0 ? result.standard_output : result.standard_error;
  }
  static json json_of(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    return json::parse(output_of(std::move(arguments)));
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string save(const std::string& file, const Tensor& tensor) {
    write_npy(directory_.file(file), tensor);
    return directory_.file(file);
  }

  test::TemporaryDirectory directory_;
  const std::vector<std::string> select_{"index_select", "--shape", "3000x64", "--shape", "2000", "--dtype",
                                         "f32",          "--dtype", "i64",     "--attr",  "dim=0"};
  const std::vector<std::string> layers_{"kv_append_layers",
                                         "--shape",
                                         "2x32x2x16",
                                         "--shape",
                                         "2x32x2x16",
                                         "--shape",
                                         "2",
                                         "--shape",
                                         "2",
                                         "--shape",
                                         "32",
                                         "--dtype",
                                         "bf16",
                                         "--dtype",
                                         "bf16",
                                         "--dtype",
                                         "i64",
                                         "--dtype",
                                         "i64",
                                         "--dtype",
                                         "i64",
                                         "--attr",
                                         "page=8",
                                         "--attr",
                                         "num_blocks=16"};
};

TEST_F(DrawnInputsTest, EveryRowIsThere) {
  const json run = json_of(with({"run", "--check", "--repeat", "1"}, select_));
  EXPECT_EQ(run.at("skipped_share"), 0.0);
  EXPECT_EQ(json_of(with({"bench", "--budget", "20ms"}, select_)).at("skipped_share"), 0.0);
  EXPECT_EQ(json_of(with({"tune", "--budget", "200ms"}, select_)).at(0).at("skipped_share"), 0.0);
  EXPECT_THAT(output_of(with({"bench", "--budget", "20ms"}, select_)), Not(HasSubstr("skipped")));
  // From -4 to 4, as they once were, at least half of the rows would be zeros.
  const std::string rows = directory_.file("rows.npy");
  output_of(with(with({"run"}, select_), {"--repeat", "1", "--output", rows}));
  const Tensor out = read_npy(rows);
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < out.numel(); ++i) zeros += out.data_as<float>()[i] == 0;
  EXPECT_LT(zeros, 10);
}

TEST_F(DrawnInputsTest, TokensReachTheirCaches) {
  const json run = json_of(with({"run", "--check", "--repeat", "1"}, layers_));
  EXPECT_EQ(run.at("skipped_share"), 0.0);
  ASSERT_EQ(run.at("check").size(), 4u) << "each layer's cache of keys and of values";
  EXPECT_EQ(run.at("check").at(0).at("output"), "key_caches[0]");
  EXPECT_EQ(run.at("check").at(0).at("elements"), 16 * 8 * 2 * 16);
  EXPECT_EQ(json_of(with({"bench", "--budget", "20ms", "--against", "reference"}, layers_)).at("skipped_share"), 0.0);
  EXPECT_EQ(json_of(with({"tune", "--budget", "200ms"}, layers_)).at(0).at("skipped_share"), 0.0);
  const std::string cache = directory_.file("0.npy");
  output_of(with(with({"run"}, layers_),
                 {"--repeat", "1", "--output-bits", "--output", cache, "--output", directory_.file("1.npy"), "--output",
                  directory_.file("2.npy"), "--output", directory_.file("3.npy")}));
  const Tensor keys = read_npy(cache);
  std::int64_t written = 0;
  for (std::int64_t i = 0; i < keys.numel(); ++i) written += keys.data_as<std::uint16_t>()[i] != 0;
  EXPECT_GT(written, 32 * 2 * 16 * 9 / 10);
  EXPECT_THAT(output_of(with({"run", "--debug"}, layers_)), AllOf(HasSubstr("key_caches[1]: ok"), HasSubstr("GB/s")));
}

TEST_F(DrawnInputsTest, CountsLeaveOutAShareThatEveryReportNames) {
  const std::vector<std::string> gather{
      "kv_gather_paged", "--shape", "64x8x2x16", "--shape", "16x4",   "--shape",   "16", "--dtype", "f32",
      "--dtype",         "i32",     "--dtype",   "i32",     "--attr", "max_len=32"};
  for (const std::vector<std::string>& command : {std::vector<std::string>{"run", "--repeat", "1"},
                                                  {"bench", "--budget", "20ms"},
                                                  {"tune", "--budget", "200ms"}}) {
    const json found = json_of(with(command, gather));
    const double share = (found.is_array() ? found.at(0) : found).at("skipped_share");
    EXPECT_GT(share, 0.2);
    EXPECT_LT(share, 0.8);
    EXPECT_THAT(output_of(with(command, gather)), AllOf(HasSubstr("skipped"), HasSubstr("of 512 tokens of 'out'")));
  }
  const json sweep = json_of({"bench",  "kv_gather_paged", "--shape", "64x8x2x16", "--shape",  "Nx4",     "--shape",
                              "N",      "--dtype",         "f32",     "--dtype",   "i32",      "--dtype", "i32",
                              "--attr", "max_len=32",      "--sweep", "N=16:16",   "--budget", "20ms"});
  EXPECT_GT(sweep.at("points").at(0).at("skipped_share"), 0.2);
}

TEST_F(DrawnInputsTest, IndicesFromAFileAreCounted) {
  const std::string x = save("x.npy", make_integers({5, 2}, std::vector<std::int64_t>(10, 3)));
  const std::string index = save("index.npy", make_integers({4}, {0, 5, -1, 4}));
  const std::vector<std::string> run{"run", "index_select", "--input", x, "--input", index, "--attr", "dim=0"};
  EXPECT_EQ(json_of(run).at("skipped_share"), 0.5);
  EXPECT_THAT(output_of(run), HasSubstr("50.0% of the work: 2 of 4 entries of 'index'"));
}

TEST_F(DrawnInputsTest, AddressesFromAFileAreRefused) {
  const Tensor rows = make_integers({1, 2, 1, 4}, std::vector<std::int64_t>(8, 3));
  const std::string key = save("key.npy", rows);
  const std::string table = save("table.npy", make_integers({1}, {1 << 20}));
  const std::string slots = save("slots.npy", make_integers({2}, {0, 1}));
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--debug"}, {"--check"}})
    EXPECT_THAT(output_of(with({"run", "kv_append_layers", "--input", key, "--input", key, "--input", table, "--input",
                                table, "--input", slots, "--attr", "num_blocks=1", "--attr", "page=4"},
                               more),
                          2),
                AllOf(HasSubstr("'key_caches' holds addresses"), HasSubstr("leave --input out")));
}

}  // namespace
}  // namespace kiln::cli
