#include "registry/kernel_cache.hpp"

#include <algorithm>

namespace kiln {

KernelCache& KernelCache::process() {
  static KernelCache& cache = *new KernelCache;  // never destroyed: threads may still dispatch while the process exits
  return cache;
}

std::shared_ptr<const LoadedKernel> KernelCache::get(const ContentHash& key,
                                                     const std::function<LoadedKernel()>& load) {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    if (slots_.size() >= sweep_at_) sweep();
    std::shared_ptr<Slot>& entry = slots_[key];
    if (entry == nullptr) entry = std::make_shared<Slot>();
    slot = entry;
  }
  const std::lock_guard lock(slot->mutex);
  if (auto kernel = slot->kernel.lock()) return kernel;
  auto kernel = std::make_shared<const LoadedKernel>(load());
  slot->kernel = kernel;
  return kernel;
}

void KernelCache::sweep() {
  // A slot held by this map alone has no thread inside, so looking at its pointer needs no lock.
  std::erase_if(slots_,
                [](const auto& entry) { return entry.second.use_count() == 1 && entry.second->kernel.expired(); });
  sweep_at_ = std::max<std::size_t>(1024, 2 * slots_.size());
}

}  // namespace kiln
