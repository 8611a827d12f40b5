#pragma once

#include <string>

namespace kiln::cli {

/// One line at the bottom of a terminal that is written over again and again. On anything but a terminal nothing is
/// written: a log full of percentages helps nobody.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// "[#######      ]  TEXT", `share` of the bar being full; cut to the terminal's width.
  void show(double share, const std::string& text);
  void clear();

 private:
  bool is_terminal_;
  bool is_shown_ = false;
};

}  // namespace kiln::cli
