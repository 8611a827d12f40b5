#include "cli/end_request.hpp"

#include <atomic>
#include <cstddef>

namespace kiln::cli {
namespace {

std::atomic<int> requested_by = 0;                     // the signal
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may store it

}  // namespace

EndRequest::EndRequest() {
  requested_by = 0;  // by an earlier command of a process that runs several
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &former_[i]);
    if (kSignals[i] == SIGHUP && former_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = [](int signal) { requested_by = signal; };
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigaction(kSignals[i], &action, nullptr);
  }
}

EndRequest::~EndRequest() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
}

bool EndRequest::is_made() noexcept {
  return requested_by != 0;
}

int EndRequest::exit_status() noexcept {
  return 128 + requested_by;
}

}  // namespace kiln::cli
