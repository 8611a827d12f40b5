#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/database.hpp"

/// What `kiln cache` does with tuned choices.
namespace kiln::cli {

struct TuningExchangeOptions {
  std::string output;               ///< export and merge: the file to write; "-": standard output
  std::vector<std::string> inputs;  ///< import and merge
  std::string op;                   ///< export: of this op only; empty: of all
  bool json = false;
};

int list_tuning(const TuningDatabase& database, bool json);
/// The entries whose key starts with `key_prefix` (hexadecimal).
std::vector<std::shared_ptr<const TuningEntry>> find_tuning(const TuningDatabase& database,
                                                            std::string_view key_prefix);

struct TuningVerification {
  std::string text;
  nlohmann::ordered_json json;
  std::size_t damaged = 0;  ///< elements that cannot be read, and files
};
/// Every entry: usable here and now, or why not. Other hardware and changed sources are no damage.
TuningVerification verify_tuning(const TuningDatabase& database, const EntryCheck& check);

/// Removes entries, and what is damaged; how many in all. SystemError when a file cannot be changed.
std::size_t remove_tuning(TuningDatabase& database, const std::function<bool(const TuningEntry&)>& unwanted);
/// "1 tuning entry", "3 tuning entries".
std::string tuning_entries_text(std::size_t count);

/// Export refuses an op of which there is nothing; import and merge report what became of each entry. Files that hold
/// no tuned choices are an InputFileError; damaged entries are named on stderr, and cost the others nothing but the
/// exit status 1.
int export_tuning(const TuningDatabase& database, const TuningExchangeOptions& options);
int import_tuning(TuningDatabase& database, const TuningExchangeOptions& options);
/// Files into a new file, past the database.
int merge_tuning(const TuningExchangeOptions& options);

}  // namespace kiln::cli
