#include "runtime/cuda_graph_holdings.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/cuda_driver.hpp"

namespace kiln::cuda {
namespace {

struct Retired {
  std::shared_ptr<void> holdings;
  void* launched;
};

/// Never destroyed: a graph may go after static objects did.
struct RetiredList {
  std::mutex mutex;
  std::vector<Retired> all;
  std::atomic<bool> any = false;
};
RetiredList& retired_list() {
  static auto* const list = new RetiredList;
  return *list;
}

/// A list that needs neither a lock nor memory, since the driver's thread adds to it.
constinit std::atomic<ForeignHoldings*> foreign{nullptr};
constinit thread_local bool is_dropping = false;

/// Marks this thread as dropping holdings, also within a drop: what goes then may be another graph.
class DroppingScope {
 public:
  DroppingScope() noexcept : previous_(std::exchange(is_dropping, true)) {}
  ~DroppingScope() { is_dropping = previous_; }
  DroppingScope(const DroppingScope&) = delete;
  DroppingScope& operator=(const DroppingScope&) = delete;

 private:
  bool previous_;
};

bool is_finished(void* launched) noexcept {
  if (launched == nullptr) return true;
  try {
    const RelaxedCapture relaxed;  // this thread may be recording another stream
    return event_is_done(launched);
  } catch (const std::exception&) {
    return true;  // the device failed: nothing runs there any more
  }
}

void wait_until_finished(void* launched) noexcept {
  try {
    const RelaxedCapture relaxed;
    synchronize_event(launched);
  } catch (const std::exception&) {
    return;  // as in is_finished
  }
}

/// Takes the finished ones off the list, so that what they hold goes without its lock: it may hold graphs.
std::vector<Retired> take_finished() {
  RetiredList& list = retired_list();
  const std::lock_guard lock(list.mutex);
  const auto first = std::partition(list.all.begin(), list.all.end(),
                                    [](const Retired& retired) { return !is_finished(retired.launched); });
  std::vector<Retired> finished(std::make_move_iterator(first), std::make_move_iterator(list.all.end()));
  list.all.erase(first, list.all.end());
  list.any.store(!list.all.empty(), std::memory_order_relaxed);
  return finished;
}

}  // namespace

void retire_holdings(std::shared_ptr<void> holdings, void* launched) noexcept {
  if (!is_finished(launched)) {
    RetiredList& list = retired_list();
    try {
      const std::lock_guard lock(list.mutex);
      Retired& retired = list.all.emplace_back();  // before anything moves, since it may fail
      retired = {std::move(holdings), launched};
      list.any.store(true, std::memory_order_relaxed);
      return;
    } catch (const std::bad_alloc&) {
      wait_until_finished(launched);
    }
  }
  if (launched != nullptr) destroy_event(launched);
  const DroppingScope dropping;
  holdings.reset();
}

void drop_later(void* foreign_holdings) {
  auto* const holdings = static_cast<ForeignHoldings*>(foreign_holdings);
  holdings->next = foreign.load(std::memory_order_relaxed);
  while (
      !foreign.compare_exchange_weak(holdings->next, holdings, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void drop_finished_holdings() noexcept {
  if (retired_list().any.load(std::memory_order_relaxed)) {
    const DroppingScope dropping;
    try {
      for (Retired& retired : take_finished()) {
        destroy_event(retired.launched);
        retired.holdings.reset();
      }
    } catch (const std::bad_alloc&) {
      return;  // they stay until there is memory for a list
    }
  }
  if (foreign.load(std::memory_order_relaxed) == nullptr) return;
  const DroppingScope dropping;
  for (ForeignHoldings* next = foreign.exchange(nullptr, std::memory_order_acquire); next != nullptr;) {
    const std::unique_ptr<ForeignHoldings> dropped(next);
    next = dropped->next;
  }
}

bool is_dropping_holdings() noexcept {
  return is_dropping;
}

}  // namespace kiln::cuda
