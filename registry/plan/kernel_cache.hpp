#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/box_map.hpp"
#include "core/content_hash.hpp"
#include "runtime/kernel.hpp"

namespace kiln {

struct LoadedKernel {
  std::shared_ptr<const Kernel> kernel;
  std::string artifact_key;               ///< of the artifact it was loaded from, in hex
  bool takes_dynamic_shared = false;      ///< see Artifact
  std::int32_t dynamic_shared_bytes = 0;  ///< see Artifact
  std::vector<BoxLoad> box_loads;         ///< see Artifact
  /// The device keeps the code when nobody uses it any more, so that to load it again would be to have it there twice.
  bool stays_loaded = false;
};

/// Loaded kernels that some plan still uses, or that stay loaded all the same, so that plans for other shapes share one
/// load. The key is what tells instances of registered ops apart (see kernel_key) and not the content key of the
/// artifact: that hashes every source, which would cost each new shape half a millisecond. Thread-safe.
class KernelCache {
 public:
  static KernelCache& process();

  /// The loaded kernel, or what `load` returns. Threads that ask for one key at a time wait for a single load; its
  /// exceptions pass through to the thread that ran it and the next one tries again.
  std::shared_ptr<const LoadedKernel> get(const ContentHash& key, const std::function<LoadedKernel()>& load);

 private:
  struct Slot {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_loading = false;                   ///< a flag, since who waits for a mutex cannot be interrupted
    std::weak_ptr<const LoadedKernel> kernel;  ///< weak: an evicted plan unloads its kernel
    std::shared_ptr<const LoadedKernel> kept;  ///< the same where it stays loaded
  };
  void sweep();

  std::mutex mutex_;
  std::map<ContentHash, std::shared_ptr<Slot>> slots_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace kiln
