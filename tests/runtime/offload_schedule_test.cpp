#include "runtime/transfer/offload_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::test {
namespace {

using Direction = OffloadTensor::Direction;
using enum OffloadStage;

constexpr std::int64_t kTensorBytes = 64;

/// Chunks over memory that is never touched: tensor `place` is 64 bytes of it.
struct Host {
  TensorView tensor(std::int64_t place) {
    return dense_view(reinterpret_cast<void*>(0x10000 + place * kTensorBytes), DType::u8, {kTensorBytes});
  }
  OffloadTensor operator()(std::int64_t place, Direction direction) { return {tensor(place), direction}; }
};

std::string to_string(OffloadMark mark) {
  constexpr std::array kNames = {"load", "compute", "store"};
  return std::string(kNames[static_cast<std::size_t>(mark.stage)]) + " " + std::to_string(mark.chunk);
}

/// One step's use of one place: a buffer of the device or a range of the host.
struct Access {
  std::int64_t begin, end;
  bool is_write;
};

std::vector<Access> accesses_of(OffloadMark mark, const OffloadChunk& chunk, int depth) {
  // Buffers have places of their own, away from the host's.
  const std::int64_t input = -1000 + mark.chunk % depth, output = -2000 + mark.chunk % depth;
  std::vector<Access> accesses;
  for (const OffloadTensor& tensor : chunk) {
    const bool is_loaded = tensor.direction != Direction::store;
    const bool is_stored = tensor.direction != Direction::load;
    const std::int64_t buffer = is_loaded ? input : output;
    const auto host = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.host.data));
    if (mark.stage == load && is_loaded) {
      accesses.push_back({host, host + kTensorBytes, false});
      accesses.push_back({buffer, buffer + 1, true});
    } else if (mark.stage == compute) {
      // Reads what was loaded and may write it too.
      accesses.push_back({buffer, buffer + 1, is_stored});
    } else if (mark.stage == store && is_stored) {
      accesses.push_back({buffer, buffer + 1, false});
      accesses.push_back({host, host + kTensorBytes, true});
    }
  }
  return accesses;
}

/// What the steps that are done before a step starts come to: steps of a stage run in order, so one number each.
using Done = std::array<std::int64_t, 3>;

/// A pair of steps that use the same memory with nothing that keeps them in the order of a sequential run, or nullopt.
std::optional<std::string> find_race(const std::vector<OffloadStep>& steps, const std::vector<OffloadChunk>& chunks,
                                     int depth) {
  // At most this much of each stage is known to be done when a step starts (that is, when the step ends it is done
  // too).
  std::vector<std::pair<OffloadMark, Done>> ended;
  Done unknown{-1, -1, -1};
  std::array<Done, 3> latest{unknown, unknown, unknown};
  const auto join = [](Done& into, const Done& other) {
    for (std::size_t i = 0; i < 3; ++i) into[i] = std::max(into[i], other[i]);
  };
  for (const OffloadStep& step : steps) {
    Done done = latest[static_cast<std::size_t>(step.mark.stage)];
    for (const OffloadMark& earlier : step.after) {
      const auto found =
          std::find_if(ended.begin(), ended.end(), [&](const auto& entry) { return entry.first == earlier; });
      if (found == ended.end()) return to_string(step.mark) + " waits for what is not enqueued: " + to_string(earlier);
      join(done, found->second);
    }
    for (const auto& [other, other_done] : ended) {
      for (const Access& mine : accesses_of(step.mark, chunks[static_cast<std::size_t>(step.mark.chunk)], depth))
        for (const Access& theirs : accesses_of(other, chunks[static_cast<std::size_t>(other.chunk)], depth)) {
          if (!mine.is_write && !theirs.is_write) continue;
          if (mine.end <= theirs.begin || theirs.end <= mine.begin) continue;
          // In a sequential run chunks come one after the other, and stages in order within each.
          if (std::pair(step.mark.chunk, step.mark.stage) < std::pair(other.chunk, other.stage))
            return to_string(step.mark) + " is enqueued after " + to_string(other) + " and uses the same memory";
          if (done[static_cast<std::size_t>(other.stage)] < other.chunk)
            return to_string(step.mark) + " may run beside " + to_string(other);
        }
    }
    done[static_cast<std::size_t>(step.mark.stage)] = step.mark.chunk;
    latest[static_cast<std::size_t>(step.mark.stage)] = done;
    ended.emplace_back(step.mark, done);
  }
  return std::nullopt;
}

/// Shapes of work, nine chunks each.
struct Work {
  const char* name;
  std::vector<OffloadChunk> chunks;
};
std::vector<Work> all_work() {
  Host host;
  std::vector<Work> work{{"load only", {}},        {"store only", {}},   {"load and store", {}}, {"in place", {}},
                         {"in place and out", {}}, {"each its own", {}}, {"a chain", {}},        {"nothing", {}}};
  for (std::int64_t i = 0; i < 9; ++i) {
    const OffloadTensor loaded = host(i, Direction::load), stored = host(100 + i, Direction::store),
                        both = host(200 + i, Direction::load_and_store);
    work[0].chunks.push_back({loaded});
    work[1].chunks.push_back({stored});
    work[2].chunks.push_back({loaded, stored});
    work[3].chunks.push_back({both});
    work[4].chunks.push_back({both, stored});
    work[5].chunks.push_back(i % 4 == 0   ? OffloadChunk{both}
                             : i % 4 == 1 ? OffloadChunk{stored}
                             : i % 4 == 2 ? OffloadChunk{loaded, stored}
                                          : OffloadChunk{});
    // Each chunk loads what the one before stored.
    work[6].chunks.push_back({host(300 + i, Direction::load), host(301 + i, Direction::store)});
    work[7].chunks.emplace_back();
  }
  return work;
}

TEST(OffloadSchedule, KeepsTheOrderOfASequentialRun) {
  for (const Work& work : all_work())
    for (int depth = 1; depth <= 5; ++depth) {
      const auto race = find_race(offload_schedule(work.chunks, depth), work.chunks, depth);
      EXPECT_EQ(race, std::nullopt) << work.name << ", depth " << depth << ": " << race.value_or("");
    }
}

/// Leaves out each wait of `work` that `is_meant` picks, one at a time, and expects a race each time.
void expect_every_wait_to_be_needed(const Work& work, int depth,
                                    const std::function<bool(OffloadMark, OffloadMark)>& is_meant) {
  const std::vector<OffloadStep> steps = offload_schedule(work.chunks, depth);
  int waits = 0;
  for (std::size_t step = 0; step < steps.size(); ++step)
    for (std::size_t wait = 0; wait < steps[step].after.size(); ++wait) {
      if (!is_meant(steps[step].mark, steps[step].after[wait])) continue;
      std::vector<OffloadStep> unguarded = steps;
      unguarded[step].after.erase(unguarded[step].after.begin() + static_cast<std::ptrdiff_t>(wait));
      EXPECT_NE(find_race(unguarded, work.chunks, depth), std::nullopt)
          << work.name << ", depth " << depth << ": " << to_string(steps[step].mark) << " waits for "
          << to_string(steps[step].after[wait]);
      ++waits;
    }
  EXPECT_GE(waits, 6) << work.name;
}

TEST(OffloadSchedule, WithoutAnyOneWaitThereIsARace) {
  for (const Work& work : all_work())
    for (int depth = 1; depth <= 3; ++depth) {
      const std::string name = work.name;
      if (name == "load only" || name == "store only" || name == "load and store" || name == "in place")
        expect_every_wait_to_be_needed(work, depth, [](OffloadMark, OffloadMark) { return true; });
      // The waits for buffers say again what these say.
      if (name == "a chain")
        expect_every_wait_to_be_needed(work, depth, [](OffloadMark waiting, OffloadMark awaited) {
          return waiting.stage == load && awaited.stage == store;
        });
    }
}

TEST(OffloadSchedule, LoadsAreEnqueuedAheadOfTheComputeBeforeThem) {
  Host host;
  std::vector<OffloadChunk> chunks;
  for (std::int64_t i = 0; i < 4; ++i) chunks.push_back({host(i, Direction::load)});
  std::vector<std::string> order;
  for (const OffloadStep& step : offload_schedule(chunks, 2)) order.push_back(to_string(step.mark));
  EXPECT_EQ(order, (std::vector<std::string>{"load 0", "load 1", "compute 0", "load 2", "compute 1", "load 3",
                                             "compute 2", "compute 3"}));
}

TEST(OffloadSchedule, AChunkThatMovesNothingIsComputedOnly) {
  const std::vector<OffloadChunk> chunks(2);
  const std::vector<OffloadStep> steps = offload_schedule(chunks, 3);
  ASSERT_EQ(steps.size(), 2U);
  for (const OffloadStep& step : steps) {
    EXPECT_EQ(step.mark.stage, compute);
    EXPECT_TRUE(step.after.empty());
  }
  EXPECT_TRUE(offload_schedule({}, 3).empty());
}

}  // namespace
}  // namespace kiln::test
