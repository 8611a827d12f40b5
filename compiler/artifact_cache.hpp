#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <map>

#include "compiler/compiler.hpp"
#include "core/disk_store.hpp"

namespace kiln {

/// Artifacts in memory, in front of the disk store, in front of a compiler. One build per key across threads and processes.
class ArtifactCache {
 public:
  enum class Origin { memory, disk, compiled };
  struct Found {
    std::shared_ptr<const Artifact> artifact;
    Origin origin;
    std::int64_t elapsed_us;  ///< of this call
  };
  struct Counters {
    std::int64_t memory_hits = 0, disk_hits = 0, builds = 0;
  };

  /// `root`: usually default_cache_root() / "artifacts". `capacity_bytes` of the disk part.
  ArtifactCache(const std::filesystem::path& root, std::int64_t capacity_bytes);
  /// The process's cache: default root, KILN_CACHE_SIZE.
  static ArtifactCache& process();

  /// CompileError passes through; a disk that refuses degrades to memory (see DiskStore::problem()).
  Found get(const CompileRequest& request, Compiler& compiler);
  Counters counters() const;
  DiskStore& disk() noexcept { return disk_; }

 private:
  struct Slot;
  DiskStore disk_;
  mutable std::mutex mutex_;
  std::map<ContentHash, std::shared_ptr<Slot>> slots_;
  Counters counters_;
};

}  // namespace kiln
