#include "registry/plan/kernel_cache.hpp"

#include <algorithm>

#include "core/interruption.hpp"

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
  std::unique_lock lock(slot->mutex);
  wait_interruptibly(slot->changed, lock, [&] { return !slot->is_loading; });
  if (auto kernel = slot->kernel.lock()) return kernel;
  slot->is_loading = true;
  lock.unlock();
  std::shared_ptr<const LoadedKernel> kernel;
  const auto finish = [&] {
    lock.lock();
    slot->kernel = kernel;
    if (kernel != nullptr && kernel->stays_loaded) slot->kept = kernel;
    slot->is_loading = false;
    slot->changed.notify_all();
  };
  try {
    kernel = std::make_shared<const LoadedKernel>(load());
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return kernel;
}

void KernelCache::sweep() {
  // A slot held by this map alone has no thread inside, so looking at its pointer needs no lock.
  std::erase_if(slots_,
                [](const auto& entry) { return entry.second.use_count() == 1 && entry.second->kernel.expired(); });
  sweep_at_ = std::max<std::size_t>(1024, 2 * slots_.size());
}

}  // namespace kiln
