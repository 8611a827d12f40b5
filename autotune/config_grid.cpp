#include "autotune/config_grid.hpp"

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace kiln {

ConfigGrid::ConfigGrid(const Scoreboard& board) {
  std::map<std::string, std::set<std::int64_t>> values;
  for (std::size_t i = 0; i < board.size(); ++i)
    for (const auto& [name, value] : board.config(i).entries()) values[name].insert(value);
  for (const auto& [name, known] : values) extents_.push_back(static_cast<int>(known.size()) + 1);
  for (std::size_t i = 0; i < board.size(); ++i) {
    Point point;
    for (const auto& [name, known] : values) {
      // A config without this tunable has the place after the last.
      const std::int64_t* value = board.config(i).find(name);
      const auto place = value == nullptr ? known.end() : known.find(*value);
      point.push_back(static_cast<int>(std::distance(known.begin(), place)));
    }
    candidates_.emplace(point, i);
    points_.push_back(std::move(point));
  }
}

std::optional<std::size_t> ConfigGrid::candidate_at(const Point& point) const {
  const auto found = candidates_.find(point);
  return found == candidates_.end() ? std::nullopt : std::optional(found->second);
}

int ConfigGrid::steps_between(std::size_t a, std::size_t b) const {
  int steps = 0;
  for (std::size_t i = 0; i < points_[a].size(); ++i) steps += std::abs(points_[a][i] - points_[b][i]);
  return steps;
}

}  // namespace kiln
