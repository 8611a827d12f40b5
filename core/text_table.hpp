#pragma once

#include <string>
#include <vector>

namespace kiln {

/// Lines of left-aligned columns, two spaces apart, after `indent` spaces; no trailing blanks. Rows may be of different
/// lengths. Cells are as terminal_line has them.
std::string format_table(std::vector<std::vector<std::string>> rows, int indent = 0);

}  // namespace kiln
