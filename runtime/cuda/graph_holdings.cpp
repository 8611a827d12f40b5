#include "runtime/cuda/graph_holdings.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"

namespace kiln {
namespace cuda {
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

/// Holdings of a graph that is not Kiln's, as the data of a user object, where nothing else tells of its end.
struct ForeignHoldings {
  explicit ForeignHoldings(std::shared_ptr<void> kept) : holdings(std::move(kept)) {}
  std::shared_ptr<void> holdings;
  ForeignHoldings* next = nullptr;
};

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

/// A user object's destructor: the driver calls it on a thread where none of its functions may be called, so somebody
/// else has to drop what is held.
void drop_later(void* foreign_holdings) {
  auto* const holdings = static_cast<ForeignHoldings*>(foreign_holdings);
  holdings->next = foreign.load(std::memory_order_relaxed);
  while (
      !foreign.compare_exchange_weak(holdings->next, holdings, std::memory_order_release, std::memory_order_relaxed)) {
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

void hold_with_graph(void* graph, std::shared_ptr<void> holdings) {
  auto holder = std::make_unique<ForeignHoldings>(std::move(holdings));
  void* const object = create_user_object(holder.get(), drop_later);
  [[maybe_unused]] const ForeignHoldings* const the_drivers = holder.release();
  give_user_object(graph, object);
}

bool is_dropping_holdings() noexcept {
  return is_dropping;
}

}  // namespace cuda

/// Not by the driver's user objects, which are made for this: launches of graphs that hold some, by two threads on one
/// stream, fail with CUDA_ERROR_UNKNOWN now and then (driver 580).
void CudaBackend::retire_holdings(std::shared_ptr<void> holdings, void* launched) noexcept {
  if (!cuda::is_finished(launched)) {
    cuda::RetiredList& list = cuda::retired_list();
    try {
      const std::lock_guard lock(list.mutex);
      cuda::Retired& retired = list.all.emplace_back();  // before anything moves, since it may fail
      retired = {std::move(holdings), launched};
      list.any.store(true, std::memory_order_relaxed);
      return;
    } catch (const std::bad_alloc&) {
      cuda::wait_until_finished(launched);
    }
  }
  if (launched != nullptr) cuda::destroy_event(launched);
  const cuda::DroppingScope dropping;
  holdings.reset();
}

void CudaBackend::drop_finished_holdings() noexcept {
  if (cuda::retired_list().any.load(std::memory_order_relaxed)) {
    const cuda::DroppingScope dropping;
    try {
      for (cuda::Retired& retired : cuda::take_finished()) {
        cuda::destroy_event(retired.launched);
        retired.holdings.reset();
      }
    } catch (const std::bad_alloc&) {
      return;  // they stay until there is memory for a list
    }
  }
  if (cuda::foreign.load(std::memory_order_relaxed) == nullptr) return;
  const cuda::DroppingScope dropping;
  for (cuda::ForeignHoldings* next = cuda::foreign.exchange(nullptr, std::memory_order_acquire); next != nullptr;) {
    const std::unique_ptr<cuda::ForeignHoldings> dropped(next);
    next = dropped->next;
  }
}

}  // namespace kiln
