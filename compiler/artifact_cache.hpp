#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "compiler/compiler.hpp"
#include "core/disk_store.hpp"

namespace kiln {

/// Artifacts in memory, in front of the disk store, in front of a compiler. One build per key across threads and
/// processes.
class ArtifactCache {
 public:
  enum class Origin { memory, disk, compiled };
  struct Found {
    std::shared_ptr<const Artifact> artifact;
    Origin origin;
    std::int64_t elapsed_us;  ///< of this call
    ContentHash key;
  };
  struct Counters {
    std::int64_t memory_hits = 0, disk_hits = 0, builds = 0;  ///< calls that got an artifact, by its origin
  };

  /// `root`: usually default_cache_root() / "artifacts". `capacity_bytes` of the disk part.
  ArtifactCache(const std::filesystem::path& root, std::int64_t capacity_bytes);
  /// The process's cache: default root, KILN_CACHE_SIZE.
  static ArtifactCache& process();

  /// Callers that ask for a key while it is being compiled wait for it; they count as memory hits. CompileError passes
  /// through, to each of them, and is not kept: the next call tries again. Each may be interrupted by itself
  /// (core/interruption.hpp). A disk that refuses degrades to memory (see
  /// DiskStore::problem()).
  Found get(const CompileRequest& request, Compiler& compiler);
  Counters counters() const;
  DiskStore& disk() noexcept { return disk_; }

 private:
  struct Slot;
  struct Loaded {
    std::shared_ptr<const Artifact> artifact;
    Origin origin;
  };
  /// Ends the slot's attempt, which is this thread's.
  Loaded attempt(Slot& slot, const ContentHash& key, const CompileRequest& request, Compiler& compiler);
  Loaded load_or_compile(const ContentHash& key, const CompileRequest& request, Compiler& compiler);

  DiskStore disk_;
  mutable std::mutex mutex_;
  std::map<ContentHash, std::shared_ptr<Slot>> slots_;
  Counters counters_;
};

}  // namespace kiln
