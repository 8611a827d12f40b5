#include "runtime/cpu/worker_pool.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <utility>

#include "core/cpu_stack.hpp"
#include "runtime/process_fork.hpp"

namespace kiln {
namespace {

/// Spins until `done()` or for kSpinTicks, and returns what it said last.
template <typename Done>
bool spin_until(const Done& done) {
  const std::uint64_t start = __rdtsc();
  while (!done()) {
    if (__rdtsc() - start > WorkerPool::kSpinTicks) return done();
    _mm_pause();
  }
  return true;
}

// std::atomic's wait yields before it sleeps. Beside a thread that never sleeps, another process's or one of a BLAS
// that spins, each yield is a turn of 4 ms, through which the thread neither runs nor can be woken.

/// Sleeps while `word` is `expected`; may return for no reason.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

/// Reads nothing of `word`, which may be gone; a sleeper at its address then wakes up for no reason.
void wake_sleeper(const std::atomic<std::uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// The thread may run wherever the calling one may, but for the processor that this one is on. A hint: where it is
/// refused, the system's choice stands.
void keep_away_from(int processor, int thread_id) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_CLR(processor, &allowed);
  if (CPU_COUNT(&allowed) > 0) sched_setaffinity(thread_id, sizeof allowed, &allowed);
}

}  // namespace

void WorkerPool::run(Range& range, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  const std::int64_t pieces = (end - begin - 1) / range.piece + 1;
  const auto wanted = std::min(max_workers_, static_cast<std::size_t>(pieces - 1));
  if (wanted == 0 || __rdtsc() < alone_until_.load(std::memory_order_relaxed)) {
    range.call(range.context, begin, end);
    return;
  }
  range.num_parts = std::min(wanted + 1, kMostParts);
  for (std::size_t i = 0; i < range.num_parts; ++i) {
    const std::int64_t others = static_cast<std::int64_t>(range.num_parts - i);
    const std::int64_t length = (end - begin + others - 1) / others;
    range.parts[i].next.store(begin, std::memory_order_relaxed);
    range.parts[i].end = begin += length;
  }
  {
    const std::lock_guard lock(mutex_);
    range.following = ranges_;
    if (ranges_ != nullptr) ranges_->previous = &range;
    ranges_ = &range;
    start_workers(wanted);
  }
  announced_.fetch_add(1, std::memory_order_release);
  // Those who look for work come by themselves; of the others two are called, who call two each.
  const auto looking = static_cast<std::size_t>(std::max(num_looking_.load(std::memory_order_relaxed), 0));
  if (wanted > looking) wake(std::min<std::size_t>(2, wanted - looking));
  const std::uint64_t longest = take_pieces(range, 0);
  {
    const std::lock_guard lock(mutex_);
    if (range.previous != nullptr)
      range.previous->following = range.following;
    else
      ranges_ = range.following;
    if (range.following != nullptr) range.following->previous = range.previous;
  }
  wait_for_workers(range, longest);
  if (range.failure) std::rethrow_exception(range.failure);
}

void WorkerPool::note_stall() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now = __rdtsc(), last = alone_until_.load(std::memory_order_relaxed);
  if (now < last) return;  // somebody else has just noted it
  alone_ticks_ = now - last < alone_ticks_ ? std::min(2 * alone_ticks_, 32 * kAloneTicks) : kAloneTicks;
  alone_until_.store(now + alone_ticks_, std::memory_order_relaxed);
}

std::int64_t WorkerPool::left_of(const Range& range) noexcept {
  std::int64_t left = 0;
  for (std::size_t i = 0; i < range.num_parts; ++i) left += std::max<std::int64_t>(range.parts[i].left(), 0);
  return left;
}

/// How long the longest piece took.
std::uint64_t WorkerPool::take_pieces(Range& range, std::size_t thread) {
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i < range.num_parts; ++i) {
    Part& part = range.parts[(thread + i) % range.num_parts];
    std::int64_t begin = part.next.load(std::memory_order_relaxed);
    while (begin < part.end) {
      // Large ones first, small ones last, so that all end together.
      const std::int64_t left = part.end - begin;
      const std::int64_t end = begin + std::min(std::max(range.piece, left / 4), left);
      if (!part.next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      const std::uint64_t start = __rdtsc();
      try {
        range.call(range.context, begin, end);
      } catch (...) {
        for (std::size_t j = 0; j < range.num_parts; ++j)
          range.parts[j].next.store(range.parts[j].end, std::memory_order_relaxed);
        const std::lock_guard lock(mutex_);
        if (!range.failure) range.failure = std::current_exception();
      }
      longest = std::max<std::uint64_t>(longest, __rdtsc() - start);
      begin = part.next.load(std::memory_order_relaxed);
    }
  }
  return longest;
}

void WorkerPool::wait_for_workers(Range& range, std::uint64_t longest) {
  const std::uint64_t done = __rdtsc();
  if (spin_until([&] { return range.inside.load(std::memory_order_acquire) == 0; })) return;
  const std::int64_t begun_ns = now_ns(CLOCK_MONOTONIC), worked_before_ns = worked_ns();
  // Asleep, for a worker that has lost its processor to somebody else may get this one.
  std::uint32_t inside = range.inside.fetch_add(kCallerSleeps, std::memory_order_acquire) + kCallerSleeps;
  while (inside != kCallerSleeps) {
    sleep_while(range.inside, inside);
    inside = range.inside.load(std::memory_order_acquire);
  }
  // A piece may take longer than others because its memory is new or far away: its worker has been running then.
  const std::uint64_t waited = __rdtsc() - done;
  if (longest > 0 && waited > kStallTicks && waited / 4 > longest &&
      worked_ns() - worked_before_ns < (now_ns(CLOCK_MONOTONIC) - begun_ns) / 2)
    note_stall();
}

/// Processor time of all workers.
std::int64_t WorkerPool::worked_ns() {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const clockid_t clock : clocks_) sum += now_ns(clock);
  return sum;
}

void WorkerPool::leave(Range& range) {
  // The caller may be gone with its range as soon as the last worker is counted out; its address is all that is used.
  std::atomic<std::uint32_t>* const inside = &range.inside;
  if (inside->fetch_sub(1, std::memory_order_release) == kCallerSleeps + 1) wake_sleeper(inside);
}

/// A range with pieces left. Under the mutex.
WorkerPool::Range* WorkerPool::find_range() {
  for (Range* range = ranges_; range != nullptr; range = range->following)
    if (left_of(*range) > 0) return range;
  return nullptr;
}

/// Under the mutex. Where the system gives no more threads, those that there are do the work.
void WorkerPool::start_workers(std::size_t wanted) {
  if (static_cast<std::size_t>(num_workers_.load(std::memory_order_relaxed)) >= wanted || cannot_start_) return;
  note_lost_in_fork(ForkLoss::workers);
  sleepers_.reserve(max_workers_);
  clocks_.reserve(max_workers_);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 2 * static_cast<std::size_t>(kMostCpuKernelStackBytes));
  sigset_t blocked, before;  // signals to the program are for the program's threads; faults are everybody's own
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  while (!cannot_start_ && static_cast<std::size_t>(num_workers_.load(std::memory_order_relaxed)) < wanted) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, work_on_thread, this) == 0)
      num_workers_.fetch_add(1, std::memory_order_relaxed);
    else
      cannot_start_ = true;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

void WorkerPool::wake(std::size_t most) {
  for (; most > 0; --most) {
    Worker* worker = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (sleepers_.empty()) return;
      worker = sleepers_.back();
      sleepers_.pop_back();
    }
    if (const int here = sched_getcpu(); here >= 0 && here != worker->kept_from) {
      keep_away_from(here, worker->thread_id);
      worker->kept_from = here;
    }
    worker->is_called.store(1, std::memory_order_release);
    wake_sleeper(&worker->is_called);
  }
}

void* WorkerPool::work_on_thread(void* pool) {
  static_cast<WorkerPool*>(pool)->work();
  return nullptr;
}

void WorkerPool::work() {
  Worker self;
  self.thread_id = static_cast<int>(syscall(SYS_gettid));
  std::unique_lock lock(mutex_);
  self.number = ++num_begun_;
  if (clockid_t clock; pthread_getcpuclockid(pthread_self(), &clock) == 0) clocks_.push_back(clock);
  while (true) {
    if (Range* range = find_range()) {
      range->inside.fetch_add(1, std::memory_order_relaxed);
      const bool is_help_wanted = left_of(*range) > 2 * range->piece;
      lock.unlock();
      if (is_help_wanted) wake(2);
      take_pieces(*range, self.number);
      leave(*range);
      lock.lock();
      continue;
    }
    const std::uint32_t announced = announced_.load(std::memory_order_acquire);
    num_looking_.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    const bool is_found = spin_until([&] { return announced_.load(std::memory_order_acquire) != announced; });
    lock.lock();
    num_looking_.fetch_sub(1, std::memory_order_relaxed);
    if (is_found || find_range() != nullptr) continue;
    self.is_called.store(0, std::memory_order_relaxed);
    sleepers_.push_back(&self);
    lock.unlock();
    while (self.is_called.load(std::memory_order_acquire) == 0) sleep_while(self.is_called, 0);
    lock.lock();
  }
}

}  // namespace kiln
