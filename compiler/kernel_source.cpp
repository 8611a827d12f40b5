#include "compiler/kernel_source.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/embedded_files.hpp"
#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/input_file.hpp"

namespace kiln {
namespace {

const EmbeddedFile* find_embedded(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return &file;
  return nullptr;
}

/// nullopt for what is no file. SystemError for one that cannot be read, or is larger than any source.
std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  return read_input_file(path.string(), kMostSourceBytes);
}

/// A header by its root-relative path, from KILN_SOURCE_DIR or embedded. Under KILN_SOURCE_DIR a file that the library
/// was not built with may be included too.
std::optional<std::string> find_header(const std::string& path, const std::optional<std::string>& source_dir) {
  const std::filesystem::path relative(path);
  const bool stays_inside = relative.is_relative() && !path.starts_with("..");
  if (source_dir && stays_inside)
    if (auto text = read_file(std::filesystem::path(*source_dir) / relative)) return text;
  if (const EmbeddedFile* file = find_embedded(path)) return std::string(file->text);
  return std::nullopt;
}

/// UsageError(value) for a folder that is not there: embedded sources in its place would have someone edit kernels and
/// see no change.
std::optional<std::string> source_directory() {
  std::optional<std::string> directory = environment("KILN_SOURCE_DIR");
  std::error_code error;
  if (directory && !std::filesystem::is_directory(*directory, error))
    throw_value_error("KILN_SOURCE_DIR is '" + *directory +
                      "', which is no folder; set it to the root of a source tree, or unset it");
  return directory;
}

struct Include {
  std::string path;
  bool is_quoted;
};

std::string_view trim_left(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view{} : text.substr(start);
}

/// The include lines of a file. Comments and conditionals are not looked at: a file too many in a key costs nothing,
/// one too few gives stale code.
std::vector<Include> scan_includes(std::string_view text) {
  std::vector<Include> includes;
  for (std::size_t hash = text.find('#'); hash != std::string_view::npos; hash = text.find('#', hash + 1)) {
    std::string_view line = trim_left(text.substr(hash + 1, text.find('\n', hash) - hash - 1));
    if (!line.starts_with("include")) continue;
    line = trim_left(line.substr(7));
    if (line.empty() || (line[0] != '"' && line[0] != '<')) continue;
    const std::size_t end = line.find(line[0] == '"' ? '"' : '>', 1);
    if (end != std::string_view::npos) includes.push_back({std::string(line.substr(1, end - 1)), line[0] == '"'});
  }
  return includes;
}

std::string beside(const std::string& includer, const std::string& path) {
  return (std::filesystem::path(includer).parent_path() / path).lexically_normal().generic_string();
}

}  // namespace

KernelSource embedded_source(const std::string& path) {
  auto text = find_header(path, source_directory());
  if (!text)
    throw InternalError("no kernel or tile-language header '" + path +
                        "' is embedded in this build (cmake/EmbedSources.cmake lists what is)");
  return {path, std::move(*text), {}};
}

std::vector<std::string> embedded_paths() {
  std::vector<std::string> paths;
  for (const EmbeddedFile& file : embedded_files()) paths.emplace_back(file.path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> quoted_includes(std::string_view text) {
  std::vector<std::string> paths;
  for (Include& include : scan_includes(text))
    if (include.is_quoted) paths.push_back(std::move(include.path));
  return paths;
}

std::vector<KernelSource> transitive_sources(const KernelSource& source) {
  const std::optional<std::string> source_dir = source_directory();
  const auto find = [&](const std::string& path) -> std::optional<std::string> {
    for (const KernelSource& header : source.headers)
      if (header.path == path) return header.text;
    return find_header(path, source_dir);
  };

  std::vector<KernelSource> found;
  std::set<std::string> seen{source.path};
  found.push_back({source.path, source.text, {}});
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string includer = found[i].path;
    for (const Include& include : scan_includes(found[i].text)) {
      // The order in which a preprocessor looks: beside the includer, then from the root. Names that resolve to nothing
      // are left to the compiler, which reports them with their line.
      std::vector<std::string> candidates;
      if (include.is_quoted) candidates.push_back(beside(includer, include.path));
      candidates.push_back(std::filesystem::path(include.path).lexically_normal().generic_string());
      for (const std::string& candidate : candidates) {
        if (seen.contains(candidate)) break;
        if (auto text = find(candidate)) {
          seen.insert(candidate);
          found.push_back({candidate, std::move(*text), {}});
          break;
        }
      }
    }
  }
  return found;
}

}  // namespace kiln
