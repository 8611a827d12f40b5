#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "autotune/scoreboard.hpp"

namespace kiln {

/// Configs as points of a grid: each tunable's value is its place in the sorted list of those that occur, so that steps
/// from one value to the next count alike, whatever the values are.
class ConfigGrid {
 public:
  using Point = std::vector<int>;

  /// Of a board's candidates.
  explicit ConfigGrid(const Scoreboard& board);

  std::size_t size() const noexcept { return points_.size(); }
  const Point& point(std::size_t candidate) const { return points_[candidate]; }
  std::optional<std::size_t> candidate_at(const Point& point) const;
  /// How many places each tunable has.
  const std::vector<int>& extents() const noexcept { return extents_; }
  /// Steps from one value to the next that lie between two candidates.
  int steps_between(std::size_t a, std::size_t b) const;

 private:
  std::vector<Point> points_;
  std::map<Point, std::size_t> candidates_;
  std::vector<int> extents_;
};

}  // namespace kiln
