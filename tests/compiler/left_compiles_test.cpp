#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace kiln::test {
namespace {

/// Compiles that were left behind go on in threads of their own (compiler/compile_thread.hpp). LeakSanitizer, which
/// looks at the stacks of all threads when the process ends, crashes over one that ends meanwhile.
class LeftCompiles : public testing::Environment {
  void SetUp() override { threads_before_ = threads(); }
  void TearDown() override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (threads() > threads_before_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  static std::ptrdiff_t threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  }

  std::ptrdiff_t threads_before_ = 1;
};

const auto* const kLeftCompiles = testing::AddGlobalTestEnvironment(new LeftCompiles);

}  // namespace
}  // namespace kiln::test
