#include "core/output_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/errors.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

void write(OutputFile& file, const std::string& text) {
  file.write(text.data(), text.size());
}

class OutputFileTest : public testing::Test {
 protected:
  std::size_t num_files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory_.path()), {}));
  }
  TemporaryDirectory directory_;
};

TEST_F(OutputFileTest, TakesItsPlaceAtCommit) {
  const std::string path = directory_.file("x");
  std::ofstream(path) << "old";
  {
    OutputFile given_up(path);
    write(given_up, "half");
  }
  EXPECT_EQ(read_text(path), "old");
  OutputFile file(path);
  write(file, "new");
  EXPECT_EQ(read_text(path), "old");
  file.commit();
  EXPECT_EQ(read_text(path), "new");
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(OutputFileTest, TwoAtATimeAreBothWhole) {
  const std::string path = directory_.file("x");
  OutputFile first(path), second(path);
  write(first, "the first, which is longer");
  write(second, "the second");
  first.commit();
  EXPECT_EQ(read_text(path), "the first, which is longer");
  second.commit();
  EXPECT_EQ(read_text(path), "the second");
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(OutputFileTest, FollowsLinks) {
  const std::filesystem::path folder = directory_.file("folder");
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink("second", directory_.file("first"));
  std::filesystem::create_symlink("folder/file", directory_.file("second"));  // where nothing is yet
  for (const std::string text : {"made", "replaced"}) {
    OutputFile file(directory_.file("first"));
    write(file, text);
    file.commit();
    EXPECT_EQ(read_text((folder / "file").string()), text);
    EXPECT_TRUE(std::filesystem::is_symlink(directory_.file("first")));
    EXPECT_TRUE(std::filesystem::is_symlink(directory_.file("second")));
  }
  std::filesystem::create_symlink("absent/file", directory_.file("broken"));
  EXPECT_THROW(OutputFile(directory_.file("broken")), SystemError);
  std::filesystem::create_symlink("circle", directory_.file("circle"));
  EXPECT_NO_THROW(check_output_path(directory_.file("circle")));  // replaced: it names nothing
}

TEST_F(OutputFileTest, AProcessThatIsKilledLeavesNothing) {
  const std::string path = directory_.file("x");
  std::ofstream(path) << "old";
  // Of a limit on the size of files: the signal's action, where nobody ignores it, is the end of the process.
  for (const int signal : {SIGKILL, SIGXFSZ}) {
    ChildProcess child([&] {
      OutputFile file(path);
      write(file, "half");
      const rlimit limit{4, 4};
      REQUIRE_IN_CHILD(setrlimit(RLIMIT_FSIZE, &limit) == 0);
      const rlimit no_core{0, 0};
      REQUIRE_IN_CHILD(setrlimit(RLIMIT_CORE, &no_core) == 0);
      if (signal == SIGKILL) raise(SIGKILL);
      write(file, "and the rest");
      return 0;
    });
    EXPECT_EQ(child.wait(), -signal);
    EXPECT_EQ(read_text(path), "old");
    EXPECT_EQ(num_files(), 1u);
  }
}

TEST_F(OutputFileTest, AFileThatGrowsTooLargeIsAnError) {
  ChildProcess child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4, 4};
    REQUIRE_IN_CHILD(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    OutputFile file(directory_.file("x"));
    REQUIRE_IN_CHILD(error_message<SystemError>([&] { write(file, "too long"); }).find("File too large") !=
                     std::string::npos);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(num_files(), 0u);
}

TEST_F(OutputFileTest, RefusesBeforeItWrites) {
  EXPECT_THROW(check_output_path(directory_.file("absent/x")), SystemError);
  EXPECT_THROW(check_output_path(directory_.path().string()), SystemError);
  EXPECT_NO_THROW(check_output_path("/dev/null"));
  EXPECT_EQ(num_files(), 0u);
}

}  // namespace
}  // namespace kiln::test
