#include "autotune/strategy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"

namespace kiln {
namespace {

// In the order of StrategyKind.
constexpr std::array<std::string_view, 5> kNames = {"auto", "exhaustive", "halving", "evolutionary", "likeliest"};

}  // namespace

std::string_view to_string(StrategyKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

StrategyKind parse_strategy(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<StrategyKind>(i);
  const std::vector<std::string> names(kNames.begin(), kNames.end());
  throw_value_error(fmt::format("there is no search strategy '{}'{} (strategies: {})", text, did_you_mean(text, names),
                                fmt::join(kNames, ", ")));
}

}  // namespace kiln
