#pragma once

#include <string>

#include "cli/tuning_cache.hpp"

namespace kiln::cli {

enum class CacheAction { list, show, stats, verify, prune, clear, export_tuning, import_tuning, merge_tuning };

struct CacheOptions {
  CacheAction action = CacheAction::list;
  std::string key;            ///< show: a key or its first digits
  std::string keep;           ///< prune: the size that artifacts shrink to, "512M"
  bool stale_tuning = false;  ///< prune: tuned choices of changed sources or spaces
  bool tuning = false;        ///< list and clear: tuned choices in place of artifacts
  bool repair = false;        ///< verify: remove what is damaged
  bool yes = false;           ///< clear: really
  bool json = false;
  TuningExchangeOptions exchange;  ///< export, import and merge
};

/// Looks at and tidies what the cache keeps on disk: compiled artifacts and tuned choices. Returns the exit status (1:
/// verify found damage and did not repair it, or import left something out).
int cache_command(const CacheOptions& options);

}  // namespace kiln::cli
