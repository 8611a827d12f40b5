// Random ops from many threads over several streams: dispatched, resolved, replayed from graphs and forked into
// branches. Every result is checked, and memory must not grow. Ends with one line.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/device.hpp"
#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/fork_join.hpp"
#include "runtime/graph.hpp"
#include "tests/stress/memory_watch.hpp"
#include "tests/stress/stress_case.hpp"

namespace kiln::test {
namespace {

struct Options {
  std::vector<std::string> devices{"cpu"};
  int threads = 32;
  int streams = 8;
  std::int64_t dispatches = 100'000;
  double seconds = 0;
  int cases = 96;
  double max_growth_mib = 16;
  std::uint64_t seed = std::random_device{}();
};

constexpr int kMostCallsAtOnce = 8;  // that a thread enqueues before it looks at the results
constexpr int kGraphs = 2;           // of each thread and device
constexpr std::size_t kCallsPerGraph = 4, kBranches = 3;
constexpr std::size_t kKeptBindings = 16;  // of each thread and device

/// What all threads share of one device.
struct Place {
  Device device;
  std::vector<StressCase> cases;
  std::vector<OwnedStream> streams;
};

/// Calls recorded once and replayed: a chain in the order of one stream.
struct RecordedCalls {
  std::vector<const StressCase*> cases;
  std::vector<StressCase::Binding> bindings;
  std::optional<Graph> graph;
};

class Progress {
 public:
  Progress(std::int64_t dispatches, double seconds) : dispatches_(dispatches), seconds_(seconds) {}

  bool is_over() const { return done() >= 1 || failed_; }
  void add(std::int64_t count) { made_ += count; }
  std::int64_t made() const { return made_; }
  double elapsed_s() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  double done() const {
    const double by_count = static_cast<double>(made_) / static_cast<double>(dispatches_);
    return std::min(1.0, seconds_ > 0 ? std::max(by_count, elapsed_s() / seconds_) : by_count);
  }
  void fail(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!failed_.exchange(true)) failure_ = what;
  }
  std::string failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  const std::int64_t dispatches_;
  const double seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<std::int64_t> made_ = 0;
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::string failure_;
};

/// One thread's part of one device.
class Worker {
 public:
  Worker(const Place& place, Progress& progress, std::uint64_t seed)
      : place_(place), progress_(progress), random_(seed), capture_stream_(place.device) {
    while (bindings_.size() < kKeptBindings) {
      const StressCase& one = any_of(place_.cases);
      bindings_.push_back({&one, one.bind(capture_stream_)});
    }
    for (int i = 0; i < kGraphs; ++i) record_graph();
    synchronize(capture_stream_);  // other streams use its memory from here on
  }

  /// Some calls on random streams, then all their results.
  void make_calls() {
    const std::size_t calls = 1 + random_() % kMostCallsAtOnce;
    for (std::size_t i = 0; i < calls; ++i) {
      const Stream stream = any_of(place_.streams);
      switch (random_() % 8) {
        case 0:
          fork(stream);
          break;
        case 1:
        case 2:
          replay(stream);
          break;
        case 3:
        case 4:
          run_resolved(stream);
          break;
        default:
          expect(any_of(place_.cases), stream, [&](const StressCase& one) { return one.dispatch(stream); });
      }
    }
    for (const Expectation& made : expectations_)
      if (const std::string wrong = made.of->difference(made.results, made.stream); !wrong.empty())
        progress_.fail(fmt::format("op '{}' on {}: {}", made.of->op(), to_string(place_.device), wrong));
    progress_.add(static_cast<std::int64_t>(expectations_.size()));
    expectations_.clear();
    in_use_.clear();
  }

 private:
  struct Expectation {
    const StressCase* of;
    std::vector<Tensor> results;
    Stream stream;
  };

  template <typename T>
  T& any_of(std::vector<T>& items) {
    return items[random_() % items.size()];
  }
  template <typename T>
  const T& any_of(const std::vector<T>& items) {
    return items[random_() % items.size()];
  }

  template <typename Run>
  void expect(const StressCase& one, Stream stream, const Run& run) {
    expectations_.push_back({&one, run(one), stream});
  }

  /// A thread's own tensors serve one call at a time: false until the results of the last were looked at.
  bool take(const void* tensors) {
    if (std::find(in_use_.begin(), in_use_.end(), tensors) != in_use_.end()) return false;
    in_use_.push_back(tensors);
    return true;
  }

  void run_resolved(Stream stream) {
    BoundCase& bound = any_of(bindings_);
    if (!take(&bound)) return;
    expect(*bound.of, stream, [&](const StressCase& one) {
      bound.binding.run(one, stream);
      return bound.binding.results(one);
    });
  }

  void fork(Stream stream) {
    std::vector<std::function<void(Stream)>> branches;
    for (std::size_t i = 0; i < kBranches; ++i)
      branches.emplace_back([this, stream, &one = any_of(place_.cases)](Stream branch) {
        expectations_.push_back({&one, one.dispatch(branch), stream});
      });
    fork_join(stream, branches);
  }

  void replay(Stream stream) {
    if (graphs_.empty()) return;
    RecordedCalls& recorded = any_of(graphs_);
    if (!take(&recorded)) return;
    recorded.graph->launch(stream);
    for (std::size_t i = 0; i < recorded.cases.size(); ++i)
      expectations_.push_back({recorded.cases[i], recorded.bindings[i].results(*recorded.cases[i]), stream});
  }

  /// Leaves out calls that cannot be captured, since they look at their data.
  void record_graph() {
    RecordedCalls recorded;
    while (recorded.cases.size() < kCallsPerGraph) {
      const StressCase& one = any_of(place_.cases);
      StressCase::Binding binding = one.bind(capture_stream_);
      synchronize(capture_stream_);
      try {
        capture(capture_stream_, [&] { binding.run(one, capture_stream_); });
      } catch (const UsageError&) {
        continue;
      }
      recorded.cases.push_back(&one);
      recorded.bindings.push_back(std::move(binding));
    }
    recorded.graph = capture(capture_stream_, [&] {
      for (std::size_t i = 0; i < recorded.cases.size(); ++i)
        recorded.bindings[i].run(*recorded.cases[i], capture_stream_);
    });
    graphs_.push_back(std::move(recorded));
  }

  struct BoundCase {
    const StressCase* of;
    StressCase::Binding binding;
  };

  const Place& place_;
  Progress& progress_;
  std::mt19937_64 random_;
  OwnedStream capture_stream_;  ///< outlives the tensors that were allocated on it
  std::vector<BoundCase> bindings_;
  std::vector<RecordedCalls> graphs_;
  std::vector<Expectation> expectations_;
  std::vector<const void*> in_use_;
};

void work(const std::vector<Place>& places, Progress& progress, std::uint64_t seed) {
  try {
    std::vector<std::unique_ptr<Worker>> workers;
    for (const Place& place : places) workers.push_back(std::make_unique<Worker>(place, progress, seed));
    for (std::size_t turn = 0; !progress.is_over(); ++turn) workers[turn % workers.size()]->make_calls();
  } catch (const std::exception& error) {
    progress.fail(error.what());
  }
}

std::vector<Place> make_places(const Options& options) {
  std::vector<Place> places;
  for (const std::string& name : options.devices) {
    Place& place = places.emplace_back();
    place.device = parse_device(name);
    device_info(place.device);  // refuses one that is not there
    place.cases = make_stress_cases(place.device, static_cast<std::size_t>(options.cases), options.seed);
    for (int i = 0; i < options.streams; ++i) place.streams.emplace_back(place.device, -(i % 2));
  }
  return places;
}

int run(const Options& options) {
  const std::vector<Place> places = make_places(options);
  std::vector<Device> devices;
  for (const Place& place : places) devices.push_back(place.device);
  fmt::print("{} cases, seed {}\n", places.front().cases.size(), options.seed);

  Progress progress(options.dispatches, options.seconds);
  MemoryWatch memory(devices);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.threads; ++i)
      threads.emplace_back(work, std::cref(places), std::ref(progress), options.seed + static_cast<std::uint64_t>(i));
    int printed = 0, sampled = 0;
    while (!progress.is_over()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const double done = progress.done();
      if (done * 200 < sampled) continue;
      sampled = static_cast<int>(done * 200) + 1;
      memory.sample(done);
      if (done * 10 < printed) continue;
      printed = static_cast<int>(done * 10) + 1;
      fmt::print("{:4.0f}%  {:8.1f} s  {}\n", done * 100, progress.elapsed_s(), memory.last());
      std::fflush(stdout);
    }
  }
  memory.sample(1);  // a short run may be over before the first look
  std::string failure = progress.failure();
  if (failure.empty() && memory.growth_mib() > options.max_growth_mib)
    failure = fmt::format("memory grew by {:.1f} MiB over the last half, at most {:.1f} are allowed",
                          memory.growth_mib(), options.max_growth_mib);
  fmt::print(
      "stress: {} dispatches on {} by {} threads over {} streams in {:.1f} s: {}; {}, {:+.1f} MiB over the last "
      "half\n",
      progress.made(), fmt::join(options.devices, " and "), options.threads, options.streams, progress.elapsed_s(),
      failure.empty() ? "all right" : "FAILED, " + failure, memory.last(), memory.growth_mib());
  return failure.empty() ? 0 : 1;
}

}  // namespace
}  // namespace kiln::test

int main(int argc, char** argv) {
  try {
    kiln::test::Options options;
    CLI::App app("Random ops from many threads over several streams; every result is checked, memory must not grow.");
    const CLI::Range positive(std::int64_t{1}, std::int64_t{1'000'000'000'000});
    app.add_option("--device", options.devices, "cpu, cuda, cuda:N, or several, with commas between")->delimiter(',');
    app.add_option("--threads", options.threads)->check(positive)->capture_default_str();
    app.add_option("--streams", options.streams, "of each device, shared by all threads")
        ->check(positive)
        ->capture_default_str();
    app.add_option("--dispatches", options.dispatches, "of all threads together")
        ->check(positive)
        ->capture_default_str();
    app.add_option("--seconds", options.seconds, "stop after so long, however many were made")->check(positive);
    app.add_option("--cases", options.cases, "calls to choose from")->check(positive)->capture_default_str();
    app.add_option("--max-growth-mib", options.max_growth_mib, "of resident and of device memory over the last half")
        ->capture_default_str();
    app.add_option("--seed", options.seed);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : 2;
    }
    return kiln::test::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stress: %s\n", error.what());
    return 1;
  }
}
