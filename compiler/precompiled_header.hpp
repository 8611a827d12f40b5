#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernel_source.hpp"

namespace kiln {

/// What Clang knows once it has read a header that kernels start with; loaded, it takes the place of reading the
/// header, which is a third of what a small kernel costs to compile. The build makes one per kernel family and one of
/// the tile language alone.
struct PrecompiledHeader {
  std::string key;    ///< precompiled_header_key of all that it was made from
  std::string stub;   ///< the text that was read; it includes the header
  std::string bytes;  ///< in Clang's format, which only the very same build of Clang reads
};

/// The text whose reading makes the precompiled header of `root`, for example "kiln/tl.hpp".
std::string precompiled_header_stub(const std::string& root);
/// Name of its file, which lies beside libkiln-clang.so.
std::string precompiled_header_file_name(const std::string& root);
/// Covers the compiler and every byte that the header was made from. `sources` are the header and all it includes.
std::string precompiled_header_key(std::string_view compiler_identity, const std::vector<KernelSource>& sources);

/// SystemError when the file cannot be written.
void write_precompiled_header(const std::filesystem::path& path, const PrecompiledHeader& header);
/// What was written for `root`, or nothing when the file is missing or damaged. Whether its key fits is for the caller.
std::optional<PrecompiledHeader> read_precompiled_header(const std::filesystem::path& path, const std::string& root);

/// The precompiled headers of this process, each read from disk once.
class PrecompiledHeaders {
 public:
  explicit PrecompiledHeaders(std::string compiler_identity);

  /// One that `source` starts with and that was made from the very bytes that `source` would include, or null, which
  /// costs time and nothing else. `sources` is transitive_sources(source). Safe from any thread; the result lives as
  /// long as this object.
  const PrecompiledHeader* find(const KernelSource& source, const std::vector<KernelSource>& sources);

 private:
  const PrecompiledHeader* find_root(const std::string& root, const std::vector<KernelSource>& sources);

  const std::string compiler_identity_;
  std::mutex mutex_;
  std::map<std::string, std::optional<PrecompiledHeader>> loaded_;  ///< by root; empty where there is none
};

}  // namespace kiln
