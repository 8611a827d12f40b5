#include "core/text_table.hpp"

#include <algorithm>
#include <cstddef>

#include "core/terminal_text.hpp"

namespace kiln {

std::string format_table(std::vector<std::vector<std::string>> rows, int indent) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = terminal_line(cell);
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    // A row's last cell pads nothing, so a long one must not push the other rows' columns apart.
    for (std::size_t column = 0; column + 1 < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size()) line.append(widths[column] - row[column].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace kiln
