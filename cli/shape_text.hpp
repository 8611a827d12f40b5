#pragma once

#include <string_view>

#include "core/shape.hpp"

namespace kiln::cli {

/// "4096x4096", "4096,4096", "(4096, 4096)", "7"; "scalar" or "()" for no dimensions. UsageError(value) otherwise.
Dims parse_shape(std::string_view text);

}  // namespace kiln::cli
