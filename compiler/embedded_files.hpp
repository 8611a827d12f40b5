#pragma once

#include <span>
#include <string_view>

namespace kiln {

struct EmbeddedFile {
  std::string_view path;  ///< relative to the root of the source tree
  std::string_view text;
};

/// Every header that kernels may include, and the alias "kiln/tl.hpp". Defined in a file that the build generates.
std::span<const EmbeddedFile> embedded_files() noexcept;

}  // namespace kiln
