#include "cli/progress_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/terminal_text.hpp"

namespace kiln::cli {
namespace {

constexpr int kBarWidth = 24;

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(double share, const std::string& text) {
  if (!is_terminal_) return;
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  std::string line = fmt::format("[{:#<{}}{:{}}] {}", "", full, "", kBarWidth - full, terminal_line(text));
  line.resize(std::min(line.size(), terminal_width() - 1));
  std::fputs(fmt::format("\r\x1b[K{}", line).c_str(), stderr);
  std::fflush(stderr);
  is_shown_ = true;
}

void ProgressLine::clear() {
  if (!is_shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  is_shown_ = false;
}

}  // namespace kiln::cli
