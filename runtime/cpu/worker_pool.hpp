#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace kiln {

/// Threads that help callers with ranges of programs. A caller works itself from the first moment; workers join while
/// there is work left, so that one which comes late, or not at all because somebody else has its processor, costs
/// nothing. What a worker has begun the caller waits for; where that takes long while no worker runs, because somebody
/// else was given its processor, callers do without workers for a while.
///
/// A worker that finds nothing to do looks for kSpinTicks, then sleeps. Whoever wakes it sees to it that it does not
/// wake up on the waker's own processor: in a virtual machine Linux takes a processor that sleeps for one that is gone,
/// and one on which another library's thread spins for no better than the waker's, and puts the woken thread behind its
/// waker, who is then done before it begins.
class WorkerPool {
 public:
  /// Of time-stamp counter ticks (2 to 4 GHz): 30 to 65 us.
  static constexpr std::uint64_t kSpinTicks = 130'000;
  /// 0.4 to 0.8 ms: to wait longer than this, and than four times the longest piece of one's own, without workers that
  /// run for half of it, is a stall. Turns of processes that share a processor take 3 to 4 ms.
  static constexpr std::uint64_t kStallTicks = 1'500'000;
  /// 12 to 25 ms without workers behind a first stall; up to 32 times that where one follows the other.
  static constexpr std::uint64_t kAloneTicks = 50'000'000;

  /// `size`: threads that work on one range, the caller among them. None is started before it is of use.
  explicit WorkerPool(int size) : max_workers_(static_cast<std::size_t>(size) - 1) {}
  WorkerPool(const WorkerPool&) = delete;  // and never destroyed: workers may sleep in it while the process ends
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Calls work(begin, end) for pieces of [begin, end), at least `piece` long but for the last, on this thread and
  /// workers, and returns when all are done. The first exception of any of them comes out here, and no further pieces
  /// are begun. Any number of threads may call at once.
  template <typename Work>
  void run(std::int64_t begin, std::int64_t end, std::int64_t piece, const Work& work) {
    Range range;
    range.call = [](const void* context, std::int64_t first, std::int64_t last) {
      (*static_cast<const Work*>(context))(first, last);
    };
    range.context = &work;
    range.piece = piece;
    run(range, begin, end);
  }

  /// Whether a worker is looking for work at this moment, so that it costs next to nothing to give it some.
  bool is_awake() const noexcept { return num_looking_.load(std::memory_order_relaxed) > 0; }
  /// Those started so far.
  int num_workers() const noexcept { return num_workers_.load(std::memory_order_relaxed); }

 private:
  /// A part of a range. Each thread has one to begin with, the same in each call, so that what it reads and writes is a
  /// run of memory of its own (10% of the time of kernels bound by memory), and then takes what is left of the others.
  struct alignas(64) Part {
    std::atomic<std::int64_t> next;
    std::int64_t end;
    std::int64_t left() const noexcept { return end - next.load(std::memory_order_relaxed); }
  };
  static constexpr std::size_t kMostParts = 64;

  /// One call of `run`, on the caller's stack.
  struct Range {
    void (*call)(const void* context, std::int64_t begin, std::int64_t end);
    const void* context;
    std::int64_t piece;
    std::size_t num_parts = 0;
    std::array<Part, kMostParts> parts;  // the first num_parts are set
    Range* previous = nullptr;           ///< in the list of those that workers may join, under the mutex
    Range* following = nullptr;
    std::exception_ptr failure;                        ///< under the mutex
    alignas(64) std::atomic<std::uint32_t> inside{0};  ///< workers; kCallerSleeps added
  };
  static constexpr std::uint32_t kCallerSleeps = 1u << 31;

  struct Worker {
    int thread_id = 0;
    std::size_t number = 0;  ///< from 1 on; the caller is 0
    int kept_from = -1;      ///< the processor that it may not use, by keep_away_from; of who wakes it
    std::atomic<std::uint32_t> is_called{0};
  };

  void run(Range& range, std::int64_t begin, std::int64_t end);
  std::uint64_t take_pieces(Range& range, std::size_t thread);
  static std::int64_t left_of(const Range& range) noexcept;
  void leave(Range& range);
  void wait_for_workers(Range& range, std::uint64_t longest);
  std::int64_t worked_ns();
  void note_stall();
  Range* find_range();
  void start_workers(std::size_t wanted);
  void wake(std::size_t most);
  void work();
  static void* work_on_thread(void* pool);

  const std::size_t max_workers_;
  std::mutex mutex_;
  Range* ranges_ = nullptr;
  std::uint64_t alone_ticks_ = 0;  ///< behind the last stall, under the mutex
  std::vector<Worker*> sleepers_;  ///< the one that fell asleep last at the end: its caches are the warmest
  std::vector<clockid_t> clocks_;  ///< of the workers that have begun to run, under the mutex
  std::size_t num_begun_ = 0;      ///< workers that have begun to run
  bool cannot_start_ = false;      ///< the system refused a thread
  std::atomic<std::uint64_t> alone_until_{0};
  std::atomic<int> num_workers_{0};
  std::atomic<int> num_looking_{0};
  alignas(64) std::atomic<std::uint32_t> announced_{0};  ///< counts ranges
};

}  // namespace kiln
