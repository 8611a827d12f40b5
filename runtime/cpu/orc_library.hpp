#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace kiln {

/// Machine code linked into this process; unmapped when the last owner goes.
class LinkedObject {
 public:
  using Entry = void (*)(void* const* parameters, const std::int64_t* grid, std::int64_t begin, std::int64_t end);
  virtual ~LinkedObject() = default;
  virtual Entry entry() const noexcept = 0;
  /// Whether it has device_asserts, and then must be run by the function below.
  virtual bool has_assertions() const noexcept = 0;
  /// Runs programs as entry() does, until an assertion fails: what it says then, with its place and program, or empty.
  virtual std::string run_until_failure(void* const* parameters, const std::int64_t* grid, std::int64_t begin,
                                        std::int64_t end) const = 0;
};

/// What libkiln-orc.so does: either `object` is set, or `problem` says why the link failed.
struct LinkResult {
  std::unique_ptr<LinkedObject> object;
  std::string problem;
};
using LinkFunction = void (*)(std::span<const std::byte> code, const std::string& name, const std::string& entry,
                              LinkResult& result);

inline constexpr const char* kLinkFunctionName = "kiln_link_object";

/// Opens libkiln-orc.so on first use. DeviceError when it is missing or does not open.
LinkFunction orc_link_function();
/// Why orc_link_function would throw because the file is missing, or empty.
std::string orc_problem();

}  // namespace kiln
