#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/database_document.hpp"
#include "autotune/database_file.hpp"
#include "autotune/entry_set.hpp"

namespace kiln {

inline constexpr std::string_view kDatabaseSuffix = ".json";

/// The file of a device: its model with whatever may not stand in a file name as %XX, and ".json".
std::string database_file_name(const std::string& device_model);

/// A file's text as entries, one per key. Entries of a device that belongs in another file are damage: nothing would
/// ever look for them here.
struct DatabaseContent {
  EntrySet entries;
  std::vector<DamagedEntry> damaged;
  std::string problem;         ///< of the file as a whole
  bool is_left_alone = false;  ///< it is of a later version, or nothing of Kiln's
};

/// `name` is the file's.
DatabaseContent parse_content(const std::string& name, const DatabaseFolder::Content& file);
/// As it is written, within what is read back: what would not fit is taken out of the content.
std::string format_content(DatabaseContent& content);
/// One line about the file, empty when nothing is wrong with it.
std::string summary(const std::filesystem::path& path, const DatabaseContent& content);

}  // namespace kiln
