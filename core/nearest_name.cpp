#include "core/nearest_name.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kiln {
namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char letter) { return lower(letter); });
  return result;
}

/// Edit distance with swapped neighbours as one edit, three rows at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

/// Shorter fragments are part of too many names to mean anything.
constexpr std::size_t kShortestFragment = 3;

}  // namespace

std::vector<std::string> nearest_names(std::string_view wanted, std::span<const std::string> known, std::size_t limit) {
  const std::string target = lower(wanted);
  std::vector<std::pair<std::size_t, std::string>> close;
  for (const std::string& candidate : known) {
    const std::string name = lower(candidate);
    const std::size_t longer = std::max(target.size(), name.size());
    const std::size_t shorter = std::min(target.size(), name.size());
    const bool is_fragment = shorter >= kShortestFragment &&
                             (name.find(target) != std::string::npos || target.find(name) != std::string::npos);
    const std::size_t distance = edit_distance(target, name);
    // Up to a third of the letters: with more edits than that a short name turns into any other.
    if (is_fragment) {
      close.emplace_back(std::min<std::size_t>(distance, 2), candidate);
    } else if (distance <= std::max<std::size_t>(1, longer / 3)) {
      close.emplace_back(distance, candidate);
    }
  }
  std::sort(close.begin(), close.end());
  if (close.size() > limit) close.resize(limit);
  std::vector<std::string> names;
  for (auto& [distance, name] : close) names.push_back(std::move(name));
  return names;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string> known) {
  const std::vector<std::string> names = nearest_names(wanted, known);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "; did you mean " : i + 1 == names.size() ? " or " : ", ";
    text += "'" + names[i] + "'";
  }
  return text.empty() ? text : text + "?";
}

}  // namespace kiln
