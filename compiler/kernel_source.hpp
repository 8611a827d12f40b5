#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// A kernel file: a name that `#include` and diagnostics use, and its text. Includes inside it resolve to the embedded
/// headers (or to KILN_SOURCE_DIR's files when that is set) and to `headers`.
struct KernelSource {
  std::string path;  ///< "ops/elementwise/kernel.hpp"
  std::string text;
  std::vector<KernelSource> headers;  ///< more files it may include by path; usually empty
};

/// An embedded kernel or tl header by its root-relative path, read from KILN_SOURCE_DIR instead when that is set.
/// InternalError when there is no such file.
KernelSource embedded_source(const std::string& path);
/// Paths of all embedded files, sorted.
std::vector<std::string> embedded_paths();
/// The paths that a file includes with quotes, as they are written.
std::vector<std::string> quoted_includes(std::string_view text);
/// The source and every file it reaches through #include "..." and <kiln/...>, each once, in a fixed order: what a
/// content key must cover and what the compilers' virtual file systems hold.
std::vector<KernelSource> transitive_sources(const KernelSource& source);

}  // namespace kiln
