// What the command writes to its two streams, whatever its arguments and files hold.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/subprocess.hpp"
#include "core/terminal_text.hpp"
#include "tests/support/kiln_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

using nlohmann::json;

/// A title for the terminal's window, a colour in two spellings, a return to the start of the line, and what is no
/// UTF-8.
constexpr const char* kControls =
    "\x1b]0;t\x07\x1b[31m\xc2\x9b"
    "1m\r\x7f\xff";

using MessagesTest = KilnProcessTest;
using MessagesCpuTest = KilnCpuTest;

TEST_F(MessagesTest, NoControlByteReachesTheTerminal) {
  const std::string bad = kControls, shapes = save("shapes", "4x" + bad + "\n");
  const std::string trace = save("trace", "{\"op\": \"" + bad + "\"\n");
  const std::string named = save(
      "named", R"({"op":"a\u001b[31mb\u009b","device":"cpu","inputs":[{"dtype":"f32","shape":[4]}],"attributes":{}})");
  const std::vector<Words> commands = {
      {bad},
      {"--" + bad},
      {"run", bad},
      {"run", "add", "--shape", bad},
      {"run", "add", "--shape", "4", "--dtype", bad},
      {"run", "add", "--shape", "4", "--attr", bad + "=1"},
      {"run", "add", "--shape", "4", "--attr", "alpha=" + bad},
      {"run", "add", "--shape", "4", "--device", bad},
      {"run", "add", "--shape", "4", "--device", "cpu", "--config", bad},
      {"run", "neg", "--input", directory_.file(bad)},
      {"run", "neg", "--input", save(bad, "text")},
      {"run", "neg", "--shape", "4", "--device", "cpu", "--output", directory_.file("absent/" + bad)},
      {"bench", "neg", "--shape", "4", "--device", "cpu", "--budget", bad},
      {"bench", "neg", "--device", "cpu", "--sweep", bad},
      {"tune", "neg", "--shapes-file", shapes, "--device", "cpu"},
      {"tune", "--from-trace", trace, "--device", "cpu"},
      {"tune", "--from-trace", named, "--device", "cpu"},
      {"inspect", "neg", "--shape", "4", "--target", bad},
      {"cache", "show", bad},
      {"cache", "prune", "--to", bad},
      {"cache", "export", directory_.file("absent/" + bad)},
      {"cache", "import", save("document", bad)},
  };
  for (const Words& command : commands) {
    SCOPED_TRACE(terminal_line(testing::PrintToString<std::vector<std::string>>(command)));
    const SubprocessResult result = run_kiln(command);
    EXPECT_NE(result.exit_status, 0);
    EXPECT_THAT(result.standard_error, StartsWith("kiln: error: "));
    EXPECT_EQ(result.standard_error, terminal_text(result.standard_error));
    EXPECT_EQ(result.standard_output, terminal_text(result.standard_output));
  }
}

TEST_F(MessagesCpuTest, TablesShowNamesOfFilesAsTheyAreSafe) {
  const std::string path = directory_.file(std::string("y") + kControls + "\nkiln: ok.npy");
  const SubprocessResult result =
      run_kiln({"run", "neg", "--shape", "4", "--device", "cpu", "--repeat", "1", "--output", path});
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, Says(terminal_line(path), "\\nkiln: ok"));
  EXPECT_EQ(result.standard_output, terminal_text(result.standard_output));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(MessagesTest, WithJsonMessagesAreObjectsToo) {
  struct Case {
    Words command;
    int status;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"rnu", 2, "'run'"},
      {"run", 2, "OP"},
      {"run ad --shape 4", 2, "'ad'"},
      {"run nosuchop", 2, "unknown op 'nosuchop' ('kiln ops' lists them all)"},
      {"run add --shpae 4", 2, "--shape"},
      {{"run", "neg", "--input", directory_.file("absent.npy")}, 1, "absent.npy"},
      {{"run", "neg", "--shape", std::string("4\x1b\xff")}, 2, "\x1b"},
      {"bench neg --shape 4 --device cpu --budget soon", 2, "soon"},
      {"tune neg --shapes-file /dev/zero --device cpu", 2, "neither a regular file"},
      {"inspect neg --shape 4 --target sm_1", 2, "sm_1"},
      {"cache show ffff", 2, "ffff"},
      {{"cache", "import", directory_.file("absent")}, 1, "absent"},
      {"ops no_such_op", 2, "no_such_op"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(terminal_line(testing::PrintToString<std::vector<std::string>>(c.command)));
    const SubprocessResult result = run_kiln(c.command + "--json");
    EXPECT_EQ(result.exit_status, c.status);
    EXPECT_THAT(result.standard_output, IsEmpty());
    const json message = json::parse(result.standard_error, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(message.is_object()) << result.standard_error;
    EXPECT_EQ(message.size(), 1u);
    EXPECT_THAT(message.value("error", ""), HasSubstr(c.part));
    EXPECT_EQ(result.standard_error.find('\n'), result.standard_error.size() - 1) << "one line";
    EXPECT_EQ(result.standard_error, terminal_text(result.standard_error));
  }
}

TEST_F(MessagesTest, EndlessAndHugeFilesAreRefused) {
  std::ofstream(directory_.file("sparse"));
  std::filesystem::resize_file(directory_.file("sparse"), std::uintmax_t{100} << 30);
  for (const std::string& file : {std::string("/dev/zero"), std::string("/dev/urandom"), directory_.file("sparse")})
    for (const Words& command : std::vector<Words>{{"tune", "neg", "--device", "cpu", "--shapes-file", file},
                                                   {"tune", "--device", "cpu", "--from-trace", file},
                                                   {"run", "neg", "--device", "cpu", "--input", file},
                                                   {"cache", "import", file},
                                                   {"cache", "merge", directory_.file("merged"), file}}) {
      SCOPED_TRACE(testing::PrintToString<std::vector<std::string>>(command));
      const SubprocessResult result = run_kiln(command);
      EXPECT_TRUE(result.exit_status == 1 || result.exit_status == 2) << result.exit_status;
      EXPECT_THAT(result.standard_error, AllOf(HasSubstr(file), testing::ContainsRegex("cannot (be )?read")));
    }
}

TEST_F(MessagesCpuTest, AFileThatMayNotGrowIsAnErrorAndLeavesNothing) {
  const std::string folder = directory_.file("out");
  std::filesystem::create_directory(folder);
  ASSERT_EQ(run_kiln("tune neg --shape 400 --device cpu --budget 200ms").exit_status, 0);
  // Blocks of 512 or 1024 bytes: less than any of these files.
  const std::vector<std::string> commands = {
      "\"$0\" run neg --shape 10000 --device cpu --repeat 1 --output \"$1/x.npy\"",
      "\"$0\" run neg --shape 10000 --device cpu --repeat 1 --profile \"$1/x.json\"",
      "\"$0\" cache export \"$1/x.json\"",
  };
  ASSERT_EQ(run_kiln("run neg --shape 10000 --device cpu --repeat 1").exit_status, 0);
  for (const std::string& command : commands) {
    const auto result = run_subprocess({"sh", "-c", "ulimit -f 1; " + command, kiln_program(), folder});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_status, 1) << command << result->standard_error;
    EXPECT_THAT(result->standard_error, HasSubstr("File too large")) << command;
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << command;
  }
}

}  // namespace
}  // namespace kiln::test
