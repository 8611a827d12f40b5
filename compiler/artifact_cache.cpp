#include "compiler/artifact_cache.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/interruption.hpp"

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
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::shared_ptr<const Artifact> artifact;
  std::exception_ptr failure;  ///< with neither, whoever made the attempt was interrupted

  void finish(std::shared_ptr<const Artifact> made, std::exception_ptr failed) {
    const std::lock_guard guard(mutex);
    artifact = std::move(made);
    failure = std::move(failed);
    is_done = true;
    changed.notify_all();
  }
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

  while (true) {
    std::shared_ptr<Slot> slot;
    bool is_ours = false;
    {
      const std::lock_guard guard(mutex_);
      std::shared_ptr<Slot>& entry = slots_[key];
      is_ours = entry == nullptr;
      if (is_ours) entry = std::make_shared<Slot>();
      slot = entry;
    }
    if (is_ours) {
      Loaded loaded = attempt(*slot, key, request, compiler);
      const std::lock_guard guard(mutex_);
      ++(loaded.origin == Origin::disk ? counters_.disk_hits : counters_.builds);
      return {std::move(loaded.artifact), loaded.origin, microseconds_since(start), key};
    }
    std::unique_lock lock(slot->mutex);
    wait_interruptibly(slot->changed, lock, [&] { return slot->is_done; });
    if (slot->failure) std::rethrow_exception(slot->failure);
    if (slot->artifact == nullptr) continue;  // the next one to come attempts it anew
    const std::lock_guard guard(mutex_);
    ++counters_.memory_hits;
    return {slot->artifact, Origin::memory, microseconds_since(start), key};
  }
}

ArtifactCache::Loaded ArtifactCache::attempt(Slot& slot, const ContentHash& key, const CompileRequest& request,
                                             Compiler& compiler) {
  const auto forget = [&] {
    const std::lock_guard guard(mutex_);
    slots_.erase(key);
  };
  try {
    Loaded loaded = load_or_compile(key, request, compiler);
    slot.finish(loaded.artifact, nullptr);
    return loaded;
  } catch (const Interrupted&) {
    forget();
    slot.finish(nullptr, nullptr);
    throw;
  } catch (const Error&) {
    forget();
    slot.finish(nullptr, std::current_exception());
    throw;
  } catch (...) {  // what a front end's check for interrupts throws is for this caller alone
    forget();
    slot.finish(nullptr, nullptr);
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
