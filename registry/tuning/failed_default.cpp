#include "registry/tuning/failed_default.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace kiln::detail {

void check_default_worked(const std::string& kind, const std::string& name, const CandidateEvidence& of_default) {
  if (!is_failure(of_default.outcome)) return;
  if (of_default.outcome == Outcome::uncompiled)
    throw CompileError(name, to_string(of_default.config), of_default.reason);
  throw DeviceError("tuning", 0,
                    fmt::format("{} '{}' cannot be tuned: its default config {} {}: {}", kind, name,
                                to_string(of_default.config), to_string(of_default.outcome), of_default.reason));
}

}  // namespace kiln::detail
