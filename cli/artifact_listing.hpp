#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/artifact.hpp"
#include "core/disk_store.hpp"

namespace kiln::cli {

/// An entry of the artifact cache, with what it holds; without marking it as used, so that looking changes no LRU
/// order.
struct ListedArtifact {
  DiskStore::Entry entry;
  std::optional<Artifact> artifact;  ///< unset: damaged, or not an artifact
};

/// All entries, newest first.
std::vector<ListedArtifact> list_artifacts(const DiskStore& store);
/// The one entry whose key starts with `key_prefix` (hexadecimal). UsageError(value) when there is none or more than
/// one.
ListedArtifact find_artifact(const DiskStore& store, std::string_view key_prefix);

}  // namespace kiln::cli
