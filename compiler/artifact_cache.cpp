#include "compiler/artifact_cache.hpp"

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "core/environment.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kDefaultCapacityBytes = std::int64_t{4} << 30;

std::int64_t microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
}

/// The artifact in an entry of the disk store. The store has checked that the bytes are those once written under this
/// key; nullptr when another version of this library wrote them in a layout of its own, or a compiler for something
/// else.
std::shared_ptr<const Artifact> accept(const std::vector<std::byte>& payload, const CompileRequest& request) try {
  Artifact artifact = Artifact::deserialize(payload);
  const bool is_cpu_code = artifact.kind == ArtifactKind::object;
  if (artifact.target != request.target || is_cpu_code != (request.target.type == DeviceType::cpu) ||
      artifact.code.empty() || artifact.entry.empty())
    return nullptr;
  return std::make_shared<const Artifact>(std::move(artifact));
} catch (const InternalError&) {
  return nullptr;
}

}  // namespace

/// One attempt at one key, which later callers wait for, and the artifact for good once it succeeded.
struct ArtifactCache::Slot {
  std::promise<std::shared_ptr<const Artifact>> promise;
  std::shared_future<std::shared_ptr<const Artifact>> result = promise.get_future().share();
};

ArtifactCache::ArtifactCache(const std::filesystem::path& root, std::int64_t capacity_bytes)
    : disk_(root, capacity_bytes) {}

ArtifactCache& ArtifactCache::process() {
  // Never destroyed: threads may still dispatch while the process runs its exit handlers.
  static ArtifactCache& cache = *[] {
    const std::filesystem::path root = default_cache_root();
    // An empty root, which the store reports, must not become "artifacts" in the current directory.
    return new ArtifactCache(root.empty() ? root : root / "artifacts",
                             environment_bytes("KILN_CACHE_SIZE").value_or(kDefaultCapacityBytes));
  }();
  return cache;
}

ArtifactCache::Found ArtifactCache::get(const CompileRequest& request, Compiler& compiler) {
  const auto start = std::chrono::steady_clock::now();
  const ContentHash key = content_key(request, compiler.identity());

  std::shared_ptr<Slot> slot;
  bool is_ours = false;
  {
    const std::lock_guard guard(mutex_);
    std::shared_ptr<Slot>& entry = slots_[key];
    is_ours = entry == nullptr;
    if (is_ours) entry = std::make_shared<Slot>();
    slot = entry;
  }

  if (!is_ours) {
    std::shared_ptr<const Artifact> artifact = slot->result.get();
    const std::lock_guard guard(mutex_);
    ++counters_.memory_hits;
    return {std::move(artifact), Origin::memory, microseconds_since(start), key};
  }

  try {
    Loaded loaded = load_or_compile(key, request, compiler);
    slot->promise.set_value(loaded.artifact);
    const std::lock_guard guard(mutex_);
    ++(loaded.origin == Origin::disk ? counters_.disk_hits : counters_.builds);
    return {std::move(loaded.artifact), loaded.origin, microseconds_since(start), key};
  } catch (...) {
    {
      const std::lock_guard guard(mutex_);
      slots_.erase(key);
    }
    slot->promise.set_exception(std::current_exception());
    throw;
  }
}

ArtifactCache::Loaded ArtifactCache::load_or_compile(const ContentHash& key, const CompileRequest& request,
                                                     Compiler& compiler) {
  std::shared_ptr<const Artifact> compiled;
  const auto build = [&] {
    compiled = std::make_shared<const Artifact>(compiler.compile(request));
    return compiled->serialize();
  };
  const std::vector<std::byte> payload = disk_.read_or_build(key, build);
  if (compiled) return {std::move(compiled), Origin::compiled};
  if (auto artifact = accept(payload, request)) return {std::move(artifact), Origin::disk};
  // Not under the key's lock: processes that find the same foreign entry each replace it with the same bytes, once.
  disk_.write(key, build());
  return {std::move(compiled), Origin::compiled};
}

ArtifactCache::Counters ArtifactCache::counters() const {
  const std::lock_guard guard(mutex_);
  return counters_;
}

}  // namespace kiln
