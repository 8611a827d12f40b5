// What the commands measure where inputs select memory or work: that it is there, and that reports say what is not.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/npy.hpp"
#include "core/subprocess.hpp"
#include "tests/support/kiln_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using nlohmann::json;

Tensor integers(const Dims& shape, const std::vector<std::int64_t>& values) {
  return tensor_of(DType::i64, shape, values);
}

class DrawnInputsTest : public KilnCpuTest {
 protected:
  static std::string output_of(const Words& arguments, int status = 0) {
    const SubprocessResult result = run_kiln(arguments + "--device cpu");
    EXPECT_EQ(result.exit_status, status) << result.standard_error;
    return status == 0 ? result.standard_output : result.standard_error;
  }
  static json json_of(const Words& arguments) { return json::parse(output_of(arguments + "--json")); }
  std::string save(const std::string& file, const Tensor& tensor) {
    cli::write_npy(directory_.file(file), tensor);
    return directory_.file(file);
  }
  const Words select_ = "index_select --shape 3000x64 --shape 2000 --dtype f32 --dtype i64 --attr dim=0";
  const Words layers_ =
      "kv_append_layers --shape 2x32x2x16 --shape 2x32x2x16 --shape 2 --shape 2 --shape 32 --dtype bf16 --dtype bf16 "
      "--dtype i64 --dtype i64 --dtype i64 --attr page=8 --attr num_blocks=16";
};

TEST_F(DrawnInputsTest, EveryRowIsThere) {
  const json run = json_of("run --check --repeat 1" + select_);
  EXPECT_EQ(run.at("skipped_share"), 0.0);
  EXPECT_EQ(json_of("bench --budget 20ms" + select_).at("skipped_share"), 0.0);
  EXPECT_EQ(json_of("tune --budget 200ms" + select_).at(0).at("skipped_share"), 0.0);
  EXPECT_THAT(output_of("bench --budget 20ms" + select_), Not(HasSubstr("skipped")));
  // From -4 to 4, as they once were, at least half of the rows would be zeros.
  const std::string rows = directory_.file("rows.npy");
  output_of("run" + select_ + "--repeat 1" + Words{"--output", rows});
  const Tensor out = cli::read_npy(rows);
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < out.numel(); ++i) zeros += out.data_as<float>()[i] == 0;
  EXPECT_LT(zeros, 10);
}

TEST_F(DrawnInputsTest, TokensReachTheirCaches) {
  const json run = json_of("run --check --repeat 1" + layers_);
  EXPECT_EQ(run.at("skipped_share"), 0.0);
  ASSERT_EQ(run.at("check").size(), 4u) << "each layer's cache of keys and of values";
  EXPECT_EQ(run.at("check").at(0).at("output"), "key_caches[0]");
  EXPECT_EQ(run.at("check").at(0).at("elements"), 16 * 8 * 2 * 16);
  EXPECT_EQ(json_of("bench --budget 20ms --against reference" + layers_).at("skipped_share"), 0.0);
  EXPECT_EQ(json_of("tune --budget 200ms" + layers_).at(0).at("skipped_share"), 0.0);
  const std::string cache = directory_.file("0.npy");
  output_of("run" + layers_ + "--repeat 1 --output-bits" +
            Words{"--output", cache, "--output", directory_.file("1.npy"), "--output", directory_.file("2.npy"),
                  "--output", directory_.file("3.npy")});
  const Tensor keys = cli::read_npy(cache);
  std::int64_t written = 0;
  for (std::int64_t i = 0; i < keys.numel(); ++i) written += keys.data_as<std::uint16_t>()[i] != 0;
  EXPECT_GT(written, 32 * 2 * 16 * 9 / 10);
  EXPECT_THAT(output_of("run --debug" + layers_), Says("key_caches[1]: ok", "GB/s"));
}

TEST_F(DrawnInputsTest, CountsLeaveOutAShareThatEveryReportNames) {
  const Words gather =
      "kv_gather_paged --shape 64x8x2x16 --shape 16x4 --shape 16 --dtype f32 --dtype i32 --dtype i32 --attr max_len=32";
  for (const Words command : {"run --repeat 1", "bench --budget 20ms", "tune --budget 200ms"}) {
    const json found = json_of(command + gather);
    const double share = (found.is_array() ? found.at(0) : found).at("skipped_share");
    EXPECT_GT(share, 0.2);
    EXPECT_LT(share, 0.8);
    EXPECT_THAT(output_of(command + gather), Says("skipped", "of 512 tokens of 'out'"));
  }
  const json sweep = json_of(
      "bench kv_gather_paged --shape 64x8x2x16 --shape Nx4 --shape N --dtype f32 --dtype i32 --dtype i32 --attr "
      "max_len=32 --sweep N=16:16 --budget 20ms");
  EXPECT_GT(sweep.at("points").at(0).at("skipped_share"), 0.2);
}

TEST_F(DrawnInputsTest, IndicesFromAFileAreCounted) {
  const std::string x = save("x.npy", integers({5, 2}, std::vector<std::int64_t>(10, 3)));
  const std::string index = save("index.npy", integers({4}, {0, 5, -1, 4}));
  const Words run{"run", "index_select", "--input", x, "--input", index, "--attr", "dim=0"};
  EXPECT_EQ(json_of(run).at("skipped_share"), 0.5);
  EXPECT_THAT(output_of(run), HasSubstr("50.0% of the work: 2 of 4 entries of 'index'"));
}

TEST_F(DrawnInputsTest, AddressesFromAFileAreRefused) {
  const Tensor rows = integers({1, 2, 1, 4}, std::vector<std::int64_t>(8, 3));
  const std::string key = save("key.npy", rows);
  const std::string table = save("table.npy", integers({1}, {1 << 20}));
  const std::string slots = save("slots.npy", integers({2}, {0, 1}));
  for (const Words more : {"", "--debug", "--check"})
    EXPECT_THAT(output_of(Words{"run", "kv_append_layers", "--input", key, "--input", key, "--input", table, "--input",
                                table, "--input", slots, "--attr", "num_blocks=1", "--attr", "page=4"} +
                              more,
                          2),
                Says("'key_caches' holds addresses", "leave --input out"));
}

}  // namespace
}  // namespace kiln::test
