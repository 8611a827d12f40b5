#include "compiler/compile_thread.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>

#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/interruption.hpp"

namespace kiln {
namespace {

/// Address space, of which a compile uses less than a megabyte where nothing is nested. kMostStatementTokens of
/// compiler/statement_length.cpp nest as deep as a quarter of this holds, in either compiler. More would cost
/// AddressSanitizer, which marks a thread's whole stack, half a second for each compile.
constexpr std::size_t kStackBytes = std::size_t{128} << 20;
/// What is left to a process whose address space is limited.
constexpr std::size_t kSmallStackBytes = std::size_t{16} << 20;
constexpr std::int64_t kDefaultTimeoutSeconds = 600;
constexpr std::int64_t kMostTimeoutSeconds = std::int64_t{1} << 30;
constexpr std::int64_t kDefaultMemoryBytes = std::int64_t{4} << 30;

std::chrono::seconds timeout() {
  const std::int64_t seconds = environment_int("KILN_COMPILE_TIMEOUT").value_or(kDefaultTimeoutSeconds);
  if (seconds < 1 || seconds > kMostTimeoutSeconds)
    throw_value_error(
        fmt::format("KILN_COMPILE_TIMEOUT is {}; expected 1 to {} seconds", seconds, kMostTimeoutSeconds));
  return std::chrono::seconds(seconds);
}

std::int64_t memory_bytes() {
  const std::int64_t bytes = environment_bytes("KILN_COMPILE_MEMORY").value_or(kDefaultMemoryBytes);
  if (bytes < 1) throw_value_error(fmt::format("KILN_COMPILE_MEMORY is {}; expected 1 byte or more", bytes));
  return bytes;
}

/// Shared by the thread that compiles and the one that waits, of which either may be gone first.
struct Job {
  std::function<void(const CompileBounds&)> compile;
  CompileBounds bounds;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::exception_ptr failure;
};

void run(Job& job) {
  std::exception_ptr failure;
  try {
    job.compile(job.bounds);
  } catch (...) {
    failure = std::current_exception();
  }
  job.compile = nullptr;
  const std::lock_guard lock(job.mutex);
  job.failure = std::move(failure);
  job.is_done = true;
  job.changed.notify_all();
}

/// std::thread has no say in the size of its stack. Zero, or why there is no thread.
int start_thread(const std::shared_ptr<Job>& job, std::size_t stack_bytes, pthread_t& thread) {
  pthread_attr_t attributes;
  if (const int code = pthread_attr_init(&attributes)) return code;
  pthread_attr_setstacksize(&attributes, stack_bytes);
  auto own = std::make_unique<std::shared_ptr<Job>>(job);
  const int code = pthread_create(
      &thread, &attributes,
      [](void* argument) -> void* {
        const std::unique_ptr<std::shared_ptr<Job>> owned(static_cast<std::shared_ptr<Job>*>(argument));
        run(**owned);
        return nullptr;
      },
      own.get());
  pthread_attr_destroy(&attributes);
  if (code == 0) {
    [[maybe_unused]] const auto* const threads = own.release();
  }
  return code;
}

/// Waits for the job, but not past the deadline; whether it is done. Throws what check_interrupt throws.
bool wait(Job& job, std::chrono::steady_clock::time_point deadline) {
  bool is_late = false;
  std::unique_lock lock(job.mutex);
  wait_interruptibly(job.changed, lock, [&] {
    is_late = !job.is_done && std::chrono::steady_clock::now() >= deadline;
    return job.is_done || is_late;
  });
  return !is_late;
}

}  // namespace

void detail::run_on_compile_thread(const std::string& op, const std::string& configuration,
                                   std::function<void(const CompileBounds&)> compile) {
  const std::chrono::seconds timeout_s = timeout();
  const auto deadline = std::chrono::steady_clock::now() + timeout_s;
  const auto job = std::make_shared<Job>();
  job->compile = std::move(compile);
  job->bounds.memory_bytes = memory_bytes();
  pthread_t thread{};
  int code = start_thread(job, kStackBytes, thread);
  if (code != 0) code = start_thread(job, kSmallStackBytes, thread);
  if (code != 0) throw SystemError(fmt::format("cannot start a thread to compile on: {}", std::strerror(code)));

  const auto leave_behind = [&] {
    job->bounds.is_abandoned = true;
    pthread_detach(thread);
  };
  bool is_done = false;
  try {
    is_done = wait(*job, deadline);
  } catch (...) {
    leave_behind();
    throw;
  }
  if (!is_done) {
    leave_behind();
    throw CompileError(op, configuration,
                       fmt::format("error: compiling took longer than {} s, which is all that it may take; templates "
                                   "that instantiate ever more of themselves are the usual reason. "
                                   "KILN_COMPILE_TIMEOUT, in seconds, allows more",
                                   timeout_s.count()));
  }
  // To its end, so that the next compile finds its stack and its part of the heap free, and warm.
  pthread_join(thread, nullptr);
  if (job->failure) std::rethrow_exception(job->failure);
}

}  // namespace kiln
