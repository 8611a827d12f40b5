#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

/// One point of a config space: named integers in the space's order ("BLOCK_SIZE=1024 num_warps=4").
class Config {
 public:
  using Entry = std::pair<std::string, std::int64_t>;
  Config() = default;
  Config(std::initializer_list<Entry> entries) : entries_(entries) {}

  void set(std::string_view name, std::int64_t value);
  /// InternalError when absent.
  std::int64_t at(std::string_view name) const;
  const std::int64_t* find(std::string_view name) const noexcept;
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  bool empty() const noexcept { return entries_.empty(); }
  friend bool operator==(const Config&, const Config&) = default;

 private:
  std::vector<Entry> entries_;
};

/// "BLOCK_SIZE=1024 num_warps=4".
std::string to_string(const Config& config);
/// The inverse; commas or spaces separate. UsageError(value) for malformed text.
Config parse_config(std::string_view text);

struct Tunable {
  std::string name;
  std::vector<std::int64_t> values;  ///< in order of preference for ties
};

struct Constraint {
  std::string text;  ///< for people: "BLOCK_SIZE >= 32 * num_warps"
  std::function<bool(const Config&)> holds;
};

/// The tunables of a variant and the constraints among them.
class ConfigSpace {
 public:
  ConfigSpace() = default;
  ConfigSpace(std::vector<Tunable> tunables, std::vector<Constraint> constraints)
      : tunables_(std::move(tunables)), constraints_(std::move(constraints)) {}

  const std::vector<Tunable>& tunables() const noexcept { return tunables_; }
  const std::vector<Constraint>& constraints() const noexcept { return constraints_; }
  /// Every valid config, in a fixed order (first tunable slowest).
  std::vector<Config> enumerate() const;
  /// UsageError(value) naming the unknown, missing or out-of-range tunable, or the constraint that fails.
  void validate(const Config& config) const;
  /// A stable text of tunables and constraints, for hashing.
  std::string signature() const;

 private:
  std::vector<Tunable> tunables_;
  std::vector<Constraint> constraints_;
};

}  // namespace kiln
