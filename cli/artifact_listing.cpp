#include "cli/artifact_listing.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include "core/directory.hpp"
#include "core/disk_entry.hpp"
#include "core/errors.hpp"

namespace kiln::cli {
namespace {

ListedArtifact read_artifact(const FileDescriptor& root, const DiskStore::Entry& entry) {
  ListedArtifact listed{entry, std::nullopt};
  const DiskEntryName file = disk_entry_name(entry.key);
  const FileDescriptor shard = open_directory(root, file.shard);
  const auto payload = shard ? read_disk_entry(shard, file.file, entry.key, /*mark_used=*/false) : std::nullopt;
  listed.entry.intact = payload.has_value();
  if (!payload) return listed;
  try {
    listed.artifact = Artifact::deserialize(*payload);
  } catch (const InternalError&) {
    listed.artifact.reset();  // intact bytes of something that is not this version's artifact: listed by key alone
  }
  return listed;
}

FileDescriptor open_root(const DiskStore& store) {
  return FileDescriptor(::open(store.root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

std::vector<ListedArtifact> list_artifacts(const DiskStore& store) {
  const FileDescriptor root = open_root(store);
  std::vector<ListedArtifact> listed;
  for (const DiskStore::Entry& entry : store.list(/*verify=*/false)) listed.push_back(read_artifact(root, entry));
  return listed;
}

ListedArtifact find_artifact(const DiskStore& store, std::string_view key_prefix) {
  std::optional<DiskStore::Entry> found;
  for (const DiskStore::Entry& entry : store.list(/*verify=*/false)) {
    if (entry.key.hex().substr(0, key_prefix.size()) != key_prefix) continue;
    if (found)
      throw_value_error(fmt::format("key '{}' is ambiguous: {} and {} both start with it; give more digits", key_prefix,
                                    found->key.hex(), entry.key.hex()));
    found = entry;
  }
  if (!found || key_prefix.empty())
    throw_value_error(
        fmt::format("no artifact's or tuning entry's key starts with '{}'; 'kiln cache list' shows them "
                    "all, --tuning the latter",
                    key_prefix));
  return read_artifact(open_root(store), *found);
}

}  // namespace kiln::cli
