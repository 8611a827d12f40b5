#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace kiln::test {

/// All bytes of a file; none where there is no such file.
inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace kiln::test
