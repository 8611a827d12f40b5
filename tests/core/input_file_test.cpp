#include "core/input_file.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

std::string problem_with(const std::string& path, std::size_t most_bytes) {
  return error_message<SystemError>([&] { read_input_file(path, most_bytes); });
}

TEST(InputFile, FilesAndPipesAreReadWhole) {
  const TemporaryDirectory directory;
  const std::string text = std::string(100'000, 'x') + '\0' + "end";
  std::ofstream(directory.file("file")) << text;
  EXPECT_EQ(read_input_file(directory.file("file"), text.size()), text);
  EXPECT_EQ(read_input_file("/proc/self/comm", 1000).substr(0, 4), "core");  // of a size that is not told

  ASSERT_EQ(mkfifo(directory.file("pipe").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(directory.file("pipe")) << text; });
  EXPECT_EQ(read_input_file(directory.file("pipe"), text.size()), text);
  writer.join();
}

TEST(InputFile, WhatNeedNotEndIsRefused) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("/dev/zero", directory.file("link"));
  for (const std::string& path : {std::string("/dev/zero"), std::string("/dev/full"), directory.file("link")})
    EXPECT_THAT(problem_with(path, 1000), Says("'" + path + "'", "neither a regular file"));
  EXPECT_THAT(problem_with(directory.path(), 1000), HasSubstr("it is a folder"));
  EXPECT_THAT(problem_with(directory.file("absent"), 1000), HasSubstr("No such file"));

  std::ofstream(directory.file("long")) << std::string(1001, 'x');
  EXPECT_THAT(problem_with(directory.file("long"), 1000), HasSubstr("more than 1000 B"));
  EXPECT_EQ(read_input_file(directory.file("long"), 1001).size(), 1001u);
  // Sparse: a hundred gigabytes that take no room.
  std::ofstream(directory.file("sparse"));
  std::filesystem::resize_file(directory.file("sparse"), std::uintmax_t{100} << 30);
  EXPECT_THAT(problem_with(directory.file("sparse"), std::size_t{1} << 20), HasSubstr("more than 1.0 MiB"));
}

}  // namespace
}  // namespace kiln::test
