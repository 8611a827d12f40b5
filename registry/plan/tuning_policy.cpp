#include "registry/plan/tuning_policy.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "core/environment.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"off", "use", "nearest", "first_use"};
constexpr int kUnset = -1;

std::atomic<int> set_policy{kUnset};
std::atomic<std::uint64_t> generation{0};

using Log = std::function<void(const std::string&)>;

struct SharedLog {
  std::mutex mutex;
  std::shared_ptr<const Log> log;
};

SharedLog& shared_log() {
  static auto* const log = new SharedLog;  // never destroyed: threads may still dispatch while the process exits
  return *log;
}

int policy_of_environment() {
  const auto text = environment("KILN_TUNING");
  if (!text.has_value()) return static_cast<int>(TuningPolicy::use);
  if (std::find(kNames.begin(), kNames.end(), *text) == kNames.end())
    throw_value_error("environment variable KILN_TUNING is '" + *text + "': expected off, use, nearest or first_use");
  return static_cast<int>(parse_tuning_policy(*text));
}

}  // namespace

std::string_view to_string(TuningPolicy policy) noexcept {
  return kNames[static_cast<std::size_t>(policy)];
}

TuningPolicy parse_tuning_policy(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end())
    throw_value_error("'" + std::string(text) + "' is no tuning policy; expected off, use, nearest or first_use");
  return static_cast<TuningPolicy>(found - kNames.begin());
}

TuningPolicy tuning_policy() {
  int policy = set_policy.load(std::memory_order_relaxed);
  if (policy == kUnset) [[unlikely]] {
    const int read = policy_of_environment();
    if (set_policy.compare_exchange_strong(policy, read, std::memory_order_relaxed)) policy = read;
  }
  return static_cast<TuningPolicy>(policy);
}

void set_tuning_policy(TuningPolicy policy) noexcept {
  set_policy.store(static_cast<int>(policy), std::memory_order_relaxed);
}

void set_tuning_log(std::function<void(const std::string& line)> log) {
  SharedLog& shared = shared_log();
  const std::lock_guard lock(shared.mutex);
  shared.log = log ? std::make_shared<const Log>(std::move(log)) : nullptr;
}

namespace detail {

void log_tuning(const std::string& line) {
  std::shared_ptr<const Log> log;
  {
    SharedLog& shared = shared_log();
    const std::lock_guard lock(shared.mutex);
    log = shared.log;
  }
  if (log != nullptr) (*log)(line);
}

std::uint64_t tuning_generation() noexcept {
  return generation.load(std::memory_order_relaxed);
}

void forget_tuned_plans() noexcept {
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace detail

}  // namespace kiln
