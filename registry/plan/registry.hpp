#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ops/op_spec.hpp"
#include "registry/plan/unknown_op_error.hpp"

namespace kiln {

/// Name -> OpSpec. Built-ins are there from the start; users add their own at run time. Thread-safe; a spec, once
/// registered, is never changed or removed.
class Registry {
 public:
  static Registry& process();

  /// UsageError(value) when the name is taken or empty, or when the spec lacks a part it must have.
  void register_op(OpSpec spec);
  /// nullptr when unknown.
  const OpSpec* find(std::string_view name) const;
  /// UnknownOpError naming the nearest names.
  const OpSpec& get(std::string_view name) const;
  std::vector<std::string> names() const;  ///< sorted
  /// Whether it is one of Kiln's own.
  bool is_builtin(const OpSpec& spec) const noexcept { return builtin_.contains(&spec); }

 private:
  Registry();
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>{}(name); }
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<const OpSpec>, NameHash, std::equal_to<>> specs_;
  std::unordered_set<const OpSpec*> builtin_;  ///< as it was made
};

}  // namespace kiln
