#include "core/subprocess.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

namespace kiln::test {
namespace {

TEST(Subprocess, SaysHowAProgramEnded) {
  struct Case {
    std::string script;
    int exit_status;
    std::string standard_output, standard_error;
  };
  const std::vector<Case> cases = {{"echo out", 0, "out\n", ""},
                                   {"echo out; echo bad >&2; exit 3", 3, "out\n", "bad\n"},
                                   {"kill -9 $$", 128 + SIGKILL, "", ""}};
  for (const Case& c : cases) {
    const auto result = run_subprocess({"sh", "-c", c.script});
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->exit_status, c.exit_status) << c.script;
    EXPECT_EQ(result->standard_output, c.standard_output);
    EXPECT_EQ(result->standard_error, c.standard_error);
  }
  EXPECT_FALSE(run_subprocess({"no-such-program-of-any-kind"}).has_value());
}

TEST(Subprocess, RunsWhereNobodyCanTellTheStatus) {
  auto* const former = std::signal(SIGCHLD, SIG_IGN);
  const auto good = run_subprocess({"sh", "-c", "echo out"});
  const auto bad = run_subprocess({"sh", "-c", "echo bad >&2; exit 3"});
  std::signal(SIGCHLD, former);
  ASSERT_TRUE(good.has_value() && bad.has_value());
  EXPECT_EQ(good->exit_status, 0);
  EXPECT_EQ(good->standard_output, "out\n");
  EXPECT_EQ(bad->exit_status, 1);
  EXPECT_EQ(bad->standard_error, "bad\n");
}

}  // namespace
}  // namespace kiln::test
