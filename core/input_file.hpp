#pragma once

#include <cstddef>
#include <string>

namespace kiln {

/// Far beyond any source text.
inline constexpr std::size_t kMostSourceBytes = std::size_t{64} << 20;

/// The whole content of a regular file or pipe. SystemError that names the file and says why it cannot be read: there
/// is none, it is something that need not end (a device) or has no content (a folder), or it has more than
/// `most_bytes`.
std::string read_input_file(const std::string& path, std::size_t most_bytes);

}  // namespace kiln
