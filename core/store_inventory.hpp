#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "core/content_hash.hpp"
#include "core/file_lock.hpp"

namespace kiln {

/// What lies in the directory of a DiskStore, and whose it is. A store removes and replaces only what Kiln wrote: files
/// of Kiln's names that bear Kiln's headers, in a directory that Kiln's marker says is Kiln's. People point
/// KILN_CACHE_DIR at folders that hold other things, or put other things into Kiln's.
struct StoreItem {
  enum class Kind {
    entry,
    staging,
    lock,
    usage,
    marker,
    stranger,  ///< by its place, name or type nothing that Kiln makes
  };
  Kind kind;
  std::string folder;  ///< below the store's directory; empty for what lies in that itself
  std::string name;
  struct stat status;

  std::string path() const { return folder.empty() ? name : folder + '/' + name; }
};

inline constexpr const char* kStoreLocks = "locks";
inline constexpr const char* kStoreStaging = "staging";
inline constexpr const char* kStoreMarker = "kiln-store";

/// All that the directory holds, by place, name and type alone. Folders of Kiln's are looked into and are no items.
std::vector<StoreItem> store_items(const FileDescriptor& root);

/// Whether the item is Kiln's by its content too: its header may be damaged, but not be another's. Also when it is gone
/// by now.
bool is_written_by_kiln(const FileDescriptor& root, const StoreItem& item);

/// The key that an entry's place spells.
ContentHash key_of(const StoreItem& entry);

/// Paths of all that is not Kiln's, below the store's directory.
std::vector<std::string> find_strangers(const FileDescriptor& root);

bool has_store_marker(const FileDescriptor& root);
/// False with errno set when the disk refuses. Writing it again, from any number of processes, changes nothing.
bool write_store_marker(const FileDescriptor& root);

}  // namespace kiln
