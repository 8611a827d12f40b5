#include "compiler/compile_thread.hpp"

#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

#include "core/errors.hpp"
#include "core/interruption.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using namespace std::chrono_literals;

/// Uses 8 KiB of stack for each level.
int deep(int levels) {
  volatile char frame[8192];
  frame[0] = static_cast<char>(levels);
  return levels == 0 ? frame[0] : deep(levels - 1) + (frame[0] == static_cast<char>(levels) ? 1 : 0);
}

/// A compile that ends only when it is told to, and what it knows of that.
struct Endless {
  std::shared_ptr<std::atomic<bool>> was_told = std::make_shared<std::atomic<bool>>(false);

  int operator()(const CompileBounds& bounds) const {
    const auto start = std::chrono::steady_clock::now();
    while (!bounds.is_abandoned && std::chrono::steady_clock::now() - start < 60s) std::this_thread::sleep_for(1ms);
    *was_told = bounds.is_abandoned.load();
    return 0;
  }
  bool is_told_soon() const {
    for (int i = 0; i < 5000 && !*was_told; ++i) std::this_thread::sleep_for(1ms);
    return *was_told;
  }
};

class CompileThread : public testing::Test {
 protected:
  ~CompileThread() override {
    ::unsetenv("KILN_COMPILE_TIMEOUT");
    ::unsetenv("KILN_COMPILE_MEMORY");
    set_interrupt_check(nullptr);
  }
};

TEST_F(CompileThread, HandsOverWhatTheCompileReturnsOrThrows) {
  EXPECT_EQ(run_on_compile_thread("op", "N=1", [](const CompileBounds&) { return std::string("object"); }), "object");
  EXPECT_THROW(run_on_compile_thread("op", "N=1", [](const CompileBounds&) -> int { throw std::out_of_range("no"); }),
               std::out_of_range);
}

TEST_F(CompileThread, HasADeepStack) {
  EXPECT_EQ(run_on_compile_thread("op", "N=1", [](const CompileBounds&) { return deep(10'000); }), 10'000);
}

TEST_F(CompileThread, KnowsTheBoundOfMemory) {
  const auto bound = [] {
    return run_on_compile_thread("op", "N=1", [](const CompileBounds& bounds) { return bounds.memory_bytes; });
  };
  EXPECT_GE(bound(), std::int64_t{1} << 30);
  ::setenv("KILN_COMPILE_MEMORY", "64M", 1);
  EXPECT_EQ(bound(), std::int64_t{64} << 20);
}

TEST_F(CompileThread, LeavesACompileBehindAtTheDeadline) {
  ::setenv("KILN_COMPILE_TIMEOUT", "1", 1);
  const Endless endless;
  try {
    run_on_compile_thread("op", "N=1", endless);
    ADD_FAILURE() << "it ended";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.op(), "op");
    EXPECT_EQ(error.configuration(), "N=1");
    EXPECT_THAT(error.log(), HasSubstr("KILN_COMPILE_TIMEOUT"));
  }
  EXPECT_TRUE(endless.is_told_soon());
}

TEST_F(CompileThread, LeavesACompileBehindAtAStopRequest) {
  const Endless endless;
  std::stop_source stop;
  const InterruptibleScope scope(stop.get_token());
  const std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_THROW(run_on_compile_thread("op", "N=1", endless), Interrupted);
  EXPECT_TRUE(endless.is_told_soon());
}

TEST_F(CompileThread, LeavesACompileBehindWhereTheFrontEndsCheckThrows) {
  const Endless endless;
  set_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(run_on_compile_thread("op", "N=1", endless), std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  EXPECT_TRUE(endless.is_told_soon());
}

TEST_F(CompileThread, RefusesBoundsThatAreNone) {
  const auto compile = [] { return run_on_compile_thread("op", "N=1", [](const CompileBounds&) { return 1; }); };
  for (const char* name : {"KILN_COMPILE_TIMEOUT", "KILN_COMPILE_MEMORY"}) {
    for (const char* value : {"0", "-1", "soon", "99999999999999999999"}) {
      ::setenv(name, value, 1);
      EXPECT_THROW(compile(), UsageError) << name << "=" << value;
    }
    ::unsetenv(name);
  }
  EXPECT_EQ(compile(), 1);
}

}  // namespace
}  // namespace kiln::test
