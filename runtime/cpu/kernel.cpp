#include <sched.h>
#include <x86intrin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/artifact.hpp"
#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/host_cpu.hpp"
#include "runtime/backend.hpp"
#include "runtime/cpu/orc_library.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "runtime/kernel.hpp"
#include "runtime/process_fork.hpp"

namespace kiln {
namespace {

/// Work below this stays on the calling thread even where workers are looking for some, which costs a microsecond. All
/// in ticks of the time-stamp counter, which runs at 2 to 4 GHz: 3 to 6 us here. A clock in nanoseconds would cost more
/// to read than a small kernel takes to run.
constexpr std::uint64_t kInlineTicks = 12'000;
/// The same where workers sleep: to wake one costs the caller about 20 us, and it comes 20 to 50 us later. Launches
/// that workers could have shared, one soon after the other, are worth waking them when they have taken so long
/// together.
constexpr std::uint64_t kAsleepTicks = 200'000;
/// Most programs of the second, better measurement; see launch.
constexpr std::int64_t kProbePrograms = 8;
/// By so much the first program of a launch may seem longer than the others: its code and data lie in cold caches.
constexpr std::uint64_t kColdFactor = 8;
/// Pieces that threads take at a time are at least this long, so that taking them costs nothing by comparison.
constexpr std::uint64_t kPieceTicks = 5'000;

int available_processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more than a cpu_set_t counts
}

int thread_count() {
  static const int count = [] {
    const auto wanted = environment_int("KILN_NUM_THREADS");
    if (!wanted) return available_processors();
    if (*wanted < 1 || *wanted > 4096)
      throw_value_error("KILN_NUM_THREADS is " + std::to_string(*wanted) + "; expected 1 to 4096");
    return static_cast<int>(*wanted);
  }();
  return count;
}

WorkerPool& workers() {
  static auto* const shared = new WorkerPool(thread_count());
  return *shared;
}

/// The launches of this thread that were long enough for workers, and stayed on it because those slept.
class LaunchRun {
 public:
  static LaunchRun& of_this_thread() {
    thread_local LaunchRun run;
    return run;
  }
  /// Whether they follow one another so closely that workers, once awake, would stay awake.
  bool deserves_workers() const noexcept {
    return taken_ticks_ >= kAsleepTicks && __rdtsc() - ended_ < WorkerPool::kSpinTicks;
  }
  void note(std::uint64_t start) noexcept {
    if (start - ended_ >= WorkerPool::kSpinTicks) taken_ticks_ = 0;
    ended_ = __rdtsc();
    taken_ticks_ += ended_ - start;
  }

 private:
  std::uint64_t taken_ticks_ = 0;
  std::uint64_t ended_ = 0;
};

class CpuKernel final : public Kernel {
 public:
  CpuKernel(std::string name, std::unique_ptr<LinkedObject> object)
      : name_(std::move(name)),
        object_(std::move(object)),
        entry_(object_->entry()),
        has_assertions_(object_->has_assertions()) {
    thread_count();  // refuses a malformed KILN_NUM_THREADS before anything runs, and not with the first large call
  }

  void launch(const LaunchGeometry& geometry, void* const* parameters, Stream /*stream*/) const override {
    const std::int64_t* grid = geometry.grid.data();
    const std::int64_t programs = grid[0] * grid[1] * grid[2];
    if (programs <= 0) return;
    if (programs == 1 || geometry.is_brief || thread_count() == 1 || is_lost_in_fork(ForkLoss::workers)) {
      run(parameters, grid, 0, programs);
      return;
    }
    // How long a program takes is not known, so the first ones are timed. The very first pays for cold caches; where
    // that may be what makes the launch look long, others are asked. Where programs as long as the last launch's make a
    // long launch, nothing is: one of eight that runs alone would cost an eighth of the time. Should these be short
    // after all, the next launch knows.
    std::int64_t done = 0;
    std::uint64_t ticks = program_ticks_.load(std::memory_order_relaxed);
    if (ticks == 0 || is_small(ticks, programs)) {
      const std::uint64_t start = __rdtsc();
      run(parameters, grid, 0, 1);
      ticks = __rdtsc() - start;
      done = 1;
      bool stays = is_small(ticks, programs - done);
      if (!stays && programs > 2 && is_small(ticks / kColdFactor, programs - done)) {
        const std::int64_t asked =
            ticks < kInlineTicks / kProbePrograms ? std::min(kProbePrograms, (programs - done + 1) / 2) : 1;
        ticks = timed(parameters, grid, done, done + asked) / static_cast<std::uint64_t>(asked);
        done += asked;
        stays = is_small(ticks, programs - done);
      }
      if (stays) {
        run(parameters, grid, done, programs);
        if (!fits(ticks, programs, kInlineTicks)) LaunchRun::of_this_thread().note(start);
        return;
      }
    }
    const auto piece = static_cast<std::int64_t>(kPieceTicks / std::max<std::uint64_t>(ticks, 1)) + 1;
    workers().run(done, programs, piece, [&](std::int64_t begin, std::int64_t end) {
      const std::uint64_t taken = timed(parameters, grid, begin, end);
      program_ticks_.store(taken / static_cast<std::uint64_t>(end - begin), std::memory_order_relaxed);
    });
  }

  KernelResources resources() const override { return {}; }

 private:
  static bool fits(std::uint64_t ticks_each, std::int64_t programs, std::uint64_t most_ticks) noexcept {
    return ticks_each <= most_ticks && static_cast<std::uint64_t>(programs) <= most_ticks / (ticks_each + 1);
  }

  /// Whether the calling thread had better run these programs alone.
  static bool is_small(std::uint64_t ticks_each, std::int64_t programs) {
    if (fits(ticks_each, programs, kInlineTicks)) return true;
    return fits(ticks_each, programs, kAsleepTicks) && !workers().is_awake() &&
           !LaunchRun::of_this_thread().deserves_workers();
  }

  /// The first exception of a launch's threads reaches the caller, and no further pieces are started.
  void run(void* const* parameters, const std::int64_t* grid, std::int64_t begin, std::int64_t end) const {
    if (!has_assertions_) [[likely]] {
      entry_(parameters, grid, begin, end);
      return;
    }
    const std::string failure = object_->run_until_failure(parameters, grid, begin, end);
    if (!failure.empty()) throw DeviceError("kernel " + name_, 0, failure);
  }

  std::uint64_t timed(void* const* parameters, const std::int64_t* grid, std::int64_t begin, std::int64_t end) const {
    const std::uint64_t start = __rdtsc();
    run(parameters, grid, begin, end);
    return __rdtsc() - start;
  }

  std::string name_;
  std::unique_ptr<LinkedObject> object_;
  LinkedObject::Entry entry_;
  bool has_assertions_;
  /// Of a program in the last launch that was spread over threads; 0: there was none.
  mutable std::atomic<std::uint64_t> program_ticks_{0};
};

/// The features in `wanted` that this machine lacks, joined by commas.
std::string missing_features(std::string_view wanted, std::string_view offered) {
  std::string offered_list = ",";
  offered_list.append(offered).append(",");
  std::string missing;
  for (std::size_t start = 0; start < wanted.size();) {
    const std::size_t end = std::min(wanted.find(',', start), wanted.size());
    std::string item = ",";
    item.append(wanted.substr(start, end - start)).append(",");
    if (offered_list.find(item) == std::string::npos)
      missing.append(missing.empty() ? "" : ", ").append(wanted.substr(start, end - start));
    start = end + 1;
  }
  return missing;
}

}  // namespace

/// UsageError(value) for an artifact of another kind or of another CPU's features; DeviceError when libkiln-orc.so is
/// missing or the object does not link, naming the symbols that the process does not have.
std::shared_ptr<const Kernel> CpuBackend::load_kernel(const Artifact& artifact, Device /*device*/) {
  if (artifact.kind != ArtifactKind::object || artifact.target.type != DeviceType::cpu)
    throw_value_error("artifact '" + artifact.name + "' for " + to_string(artifact.target) +
                      " does not run on the CPU");
  const std::string missing = missing_features(artifact.target.features, host_cpu_features());
  if (!missing.empty())
    throw_value_error("artifact '" + artifact.name +
                      "' was compiled for a CPU with features that this one lacks: " + missing);
  LinkResult result;
  orc_link_function()(artifact.code, artifact.name, artifact.entry, result);
  if (result.object == nullptr) throw DeviceError("linking '" + artifact.name + "'", 0, result.problem);
  return std::make_shared<const CpuKernel>(artifact.name, std::move(result.object));
}

}  // namespace kiln
