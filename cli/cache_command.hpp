#pragma once

#include <string>

namespace kiln::cli {

enum class CacheAction { list, show, stats, verify, prune, clear };

struct CacheOptions {
  CacheAction action = CacheAction::list;
  std::string key;      ///< show: a key or its first digits
  std::string keep;     ///< prune: the size to shrink to, "512M"
  bool repair = false;  ///< verify: remove what is damaged
  bool yes = false;     ///< clear: really
  bool json = false;
};

/// Looks at and tidies the artifact cache on disk. Returns the exit status (1: verify found damage and did not repair
/// it).
int cache_command(const CacheOptions& options);

}  // namespace kiln::cli
