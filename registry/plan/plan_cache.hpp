#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "registry/plan/plan_key.hpp"

namespace kiln {

struct Plan;

/// Key -> plan, bounded, for all threads. A thread that repeats a call finds the plan in its own RecentPlans and does
/// not come here.
class PlanCache {
 public:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kDefaultCapacity = 4096;

  explicit PlanCache(std::size_t capacity = kDefaultCapacity) : capacity_per_shard_(capacity / kShards) {}
  static PlanCache& process();

  /// nullptr when absent.
  std::shared_ptr<const Plan> find(const PlanKey& key) const;
  /// The plan now cached for `key`: `plan`, or the one another thread put there first. Evicts the least recently found
  /// plan of a full shard.
  std::shared_ptr<const Plan> insert(const PlanKey& key, std::shared_ptr<const Plan> plan);
  std::size_t size() const;

 private:
  struct Entry {
    std::vector<std::uint64_t> words;
    std::shared_ptr<const Plan> plan;
    mutable std::atomic<std::uint64_t> last_found;
  };
  struct Shard {
    mutable std::shared_mutex mutex;
    std::unordered_multimap<std::uint64_t, Entry> entries;  ///< by hash; words settle collisions
  };
  static const Entry* find_in(const Shard& shard, const PlanKey& key);
  const Shard& shard_of(const PlanKey& key) const noexcept { return shards_[key.hash() % kShards]; }

  std::size_t capacity_per_shard_;
  mutable std::atomic<std::uint64_t> clock_{0};
  std::array<Shard, kShards> shards_;
};

/// One thread's last plans, direct-mapped: a hit is a comparison of words, without lock or shared write.
class RecentPlans {
 public:
  static RecentPlans& of_this_thread();

  /// nullptr when absent; the pointer is good until the next `put`.
  const std::shared_ptr<const Plan>* find(const PlanKey& key) const noexcept;
  void put(const PlanKey& key, std::shared_ptr<const Plan> plan);

 private:
  static constexpr std::size_t kSlots = 64;
  struct Slot {
    std::uint64_t hash = 0;
    std::vector<std::uint64_t> words;
    std::shared_ptr<const Plan> plan;
  };
  std::array<Slot, kSlots> slots_;
};

}  // namespace kiln
