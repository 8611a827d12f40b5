#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// `text` with everything that a terminal might act upon spelled out: control bytes as \x1b, those of Unicode as
/// \u009b, bytes that are no UTF-8 as \xff. Newlines and tabs stay.
std::string terminal_text(std::string_view text);
/// The same with newlines and tabs spelled out too, as \n and \t: what came from an argument or a file stays on its
/// line.
std::string terminal_line(std::string_view text);

}  // namespace kiln
