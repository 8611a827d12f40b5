#include "runtime/cuda/branch_stream.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cuda/driver.hpp"
#include "runtime/event.hpp"

namespace kiln::cuda {

class BranchLoan {
 public:
  BranchLoan(OwnedStream stream, Stream parent, int priority)
      : stream_(std::move(stream)),
        handle_(stream_.get()),
        parent_(parent),
        parent_loan_(find_branch_loan(parent)),
        priority_(priority) {}

  Stream stream() const noexcept { return handle_; }
  int priority() const noexcept { return priority_; }
  void join() {
    wait_stream(parent_, handle_);
    is_joined_.store(true, std::memory_order_release);
  }
  Stream stream_for_frees() const noexcept {
    if (!is_joined_.load(std::memory_order_acquire)) return handle_;
    return parent_loan_ != nullptr ? parent_loan_->stream_for_frees() : parent_;
  }
  OwnedStream take_stream() noexcept { return std::move(stream_); }

 private:
  OwnedStream stream_;  ///< none once the loan is over
  Stream handle_, parent_;
  std::shared_ptr<const BranchLoan> parent_loan_;  ///< of a fork within a branch
  int priority_;
  std::atomic<bool> is_joined_ = false;
};

namespace {

class BranchStreamPool {
 public:
  /// Never destroyed: branches may still run while the process exits.
  static BranchStreamPool& process() {
    static auto* const pool = new BranchStreamPool;
    return *pool;
  }

  std::shared_ptr<BranchLoan> lend(Stream parent, int priority) {
    auto loan = std::make_shared<BranchLoan>(take(parent.device, priority), parent, priority);
    const std::lock_guard lock(mutex_);
    lent_.push_back(loan);
    num_lent_.store(lent_.size(), std::memory_order_relaxed);
    return loan;
  }

  void take_back(const std::shared_ptr<BranchLoan>& loan) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(lent_, loan);
    num_lent_.store(lent_.size(), std::memory_order_relaxed);
    try {
      free_[{loan->stream().device.index, loan->priority()}].push_back(loan->take_stream());
    } catch (const std::exception&) {
      return;  // no memory to remember it in: the stream goes with the loan
    }
  }

  std::shared_ptr<const BranchLoan> find(Stream stream) {
    // Whoever holds a lent stream was handed it after the count went up.
    if (num_lent_.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(lent_.begin(), lent_.end(), [&](const auto& loan) {
      return loan->stream().handle == stream.handle && loan->stream().device == stream.device;
    });
    return found == lent_.end() ? nullptr : *found;
  }

 private:
  OwnedStream take(Device device, int priority) {
    {
      const std::lock_guard lock(mutex_);
      std::deque<OwnedStream>& streams = free_[{device.index, priority}];
      // The longest unused first: it has the least work left.
      const auto found =
          std::find_if(streams.begin(), streams.end(), [](const OwnedStream& one) { return !is_capturing(one); });
      if (found != streams.end()) {
        OwnedStream stream = std::move(*found);
        streams.erase(found);
        return stream;
      }
    }
    const RelaxedCapture relaxed;
    return OwnedStream(device, priority);
  }

  std::mutex mutex_;
  std::map<std::pair<std::int32_t, int>, std::deque<OwnedStream>> free_;  ///< by device and priority
  std::vector<std::shared_ptr<BranchLoan>> lent_;
  std::atomic<std::size_t> num_lent_ = 0;
};

}  // namespace

BranchStream::BranchStream(Stream parent, int priority) : loan_(BranchStreamPool::process().lend(parent, priority)) {}

BranchStream::~BranchStream() {
  if (loan_ != nullptr) BranchStreamPool::process().take_back(loan_);
}

Stream BranchStream::get() const noexcept {
  return loan_->stream();
}

void BranchStream::join() {
  loan_->join();
}

void BranchStream::try_join() noexcept {
  try {
    loan_->join();
  } catch (const std::exception&) {
    return;
  }
}

std::shared_ptr<const BranchLoan> find_branch_loan(Stream stream) {
  return BranchStreamPool::process().find(stream);
}

Stream stream_for_frees(const BranchLoan& loan) noexcept {
  return loan.stream_for_frees();
}

}  // namespace kiln::cuda
