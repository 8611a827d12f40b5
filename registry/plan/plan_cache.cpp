#include "registry/plan/plan_cache.hpp"

#include <algorithm>
#include <utility>

namespace kiln {

PlanCache& PlanCache::process() {
  static PlanCache& cache = *new PlanCache;  // never destroyed: threads may still dispatch while the process exits
  return cache;
}

const PlanCache::Entry* PlanCache::find_in(const Shard& shard, const PlanKey& key) {
  const auto [first, last] = shard.entries.equal_range(key.hash());
  const auto found =
      std::find_if(first, last, [&](const auto& item) { return std::ranges::equal(item.second.words, key.words()); });
  return found == last ? nullptr : &found->second;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey& key) const {
  const Shard& shard = shard_of(key);
  const std::shared_lock lock(shard.mutex);
  const Entry* entry = find_in(shard, key);
  if (entry == nullptr) return nullptr;
  entry->last_found.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  return entry->plan;
}

std::shared_ptr<const Plan> PlanCache::insert(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  Shard& shard = shards_[key.hash() % kShards];
  std::shared_ptr<const Plan> evicted;  // outlives the lock: unloading its kernel may take a while
  const std::unique_lock lock(shard.mutex);
  if (const Entry* entry = find_in(shard, key)) return entry->plan;
  if (shard.entries.size() >= capacity_per_shard_) {
    const auto oldest = std::min_element(shard.entries.begin(), shard.entries.end(), [](const auto& a, const auto& b) {
      return a.second.last_found.load(std::memory_order_relaxed) < b.second.last_found.load(std::memory_order_relaxed);
    });
    evicted = std::move(oldest->second.plan);
    shard.entries.erase(oldest);
  }
  const auto at =
      shard.entries.emplace(std::piecewise_construct, std::forward_as_tuple(key.hash()), std::forward_as_tuple());
  at->second.words.assign(key.words().begin(), key.words().end());
  at->second.plan = std::move(plan);
  at->second.last_found.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  return at->second.plan;
}

std::size_t PlanCache::size() const {
  std::size_t total = 0;
  for (const Shard& shard : shards_) {
    const std::shared_lock lock(shard.mutex);
    total += shard.entries.size();
  }
  return total;
}

RecentPlans& RecentPlans::of_this_thread() {
  thread_local RecentPlans recent;
  return recent;
}

const std::shared_ptr<const Plan>* RecentPlans::find(const PlanKey& key) const noexcept {
  const Slot& slot = slots_[key.hash() / PlanCache::kShards % kSlots];
  if (slot.hash != key.hash() || slot.plan == nullptr || !std::ranges::equal(slot.words, key.words())) return nullptr;
  return &slot.plan;
}

void RecentPlans::put(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  Slot& slot = slots_[key.hash() / PlanCache::kShards % kSlots];
  slot.hash = key.hash();
  slot.words.assign(key.words().begin(), key.words().end());
  slot.plan = std::move(plan);
}

}  // namespace kiln
