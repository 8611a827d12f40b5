#include "autotune/evidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "core/errors.hpp"

namespace kiln {
namespace {

// In the order of Outcome.
constexpr std::array<std::string_view, 8> kOutcomes = {"untried",    "measured",   "cut",        "ruled_out",
                                                       "uncompiled", "unlaunched", "mismatched", "hung"};

}  // namespace

std::string_view to_string(Outcome outcome) {
  return kOutcomes[static_cast<std::size_t>(outcome)];
}

Outcome parse_outcome(std::string_view text) {
  for (std::size_t i = 0; i < kOutcomes.size(); ++i)
    if (kOutcomes[i] == text) return static_cast<Outcome>(i);
  throw_value_error(fmt::format("outcome '{}' of a candidate; expected one of {}", text, fmt::join(kOutcomes, ", ")));
}

bool is_failure(Outcome outcome) noexcept {
  return outcome >= Outcome::uncompiled;
}

}  // namespace kiln
