#include "compiler/precompiled_header.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "core/content_hash.hpp"
#include "core/errors.hpp"
#include "core/plugin.hpp"

namespace kiln {
namespace {

constexpr const char* kTileLanguage = "kiln/tl.hpp";

std::string checksum(std::string_view bytes) {
  return content_hash(std::as_bytes(std::span(bytes))).hex();
}

/// Whether the tile language's include is the first thing that `text` says. A precompiled header comes before all else:
/// after a definition of the kernel's own, which the tile language would have seen, it is not the same as the include.
bool starts_with_tile_language(std::string_view text) {
  constexpr std::string_view kInclude = "#include <kiln/tl.hpp>";
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (text.starts_with(kInclude)) {
      const std::size_t next = text.find_first_not_of(" \t\r", kInclude.size());
      return next == std::string_view::npos || text[next] == '\n';
    }
    std::size_t end = std::string_view::npos;
    if (text.starts_with("//") || text.starts_with("#pragma once\n")) {
      end = text.find('\n');
      // A backslash carries the comment on to the next line.
      if (end != std::string_view::npos && text.substr(0, end).find('\\') != std::string_view::npos) return false;
    } else if (text.starts_with("/*")) {
      end = text.find("*/", 2);
      if (end != std::string_view::npos) ++end;
    }
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string precompiled_header_stub(const std::string& root) {
  return "#include \"" + root + "\"\n";
}

std::string precompiled_header_file_name(const std::string& root) {
  std::string name = root;
  std::replace(name.begin(), name.end(), '/', '-');
  return "libkiln-clang." + name + ".pch";
}

std::string precompiled_header_key(std::string_view compiler_identity, const std::vector<KernelSource>& sources) {
  ContentHasher hasher;
  hasher.field("precompiled header 1").field(compiler_identity);
  for (const KernelSource& source : sources) hasher.field(source.path).field(source.text);
  return hasher.digest().hex();
}

// The file is the key and the checksum of the bytes, in hex, a line each, then the bytes.
void write_precompiled_header(const std::filesystem::path& path, const PrecompiledHeader& header) {
  // Written under another name first: a compile that runs meanwhile sees the old file or the new one.
  std::filesystem::path unfinished = path;
  unfinished += ".unfinished";
  std::ofstream stream(unfinished, std::ios::binary);
  stream << header.key << '\n' << checksum(header.bytes) << '\n' << header.bytes;
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(unfinished, path, error);
  if (!stream || error) throw SystemError("cannot write the precompiled header " + path.string());
}

std::optional<PrecompiledHeader> read_precompiled_header(const std::filesystem::path& path, const std::string& root) {
  std::ifstream stream(path, std::ios::binary);
  std::string key, sum;
  if (!std::getline(stream, key) || !std::getline(stream, sum)) return std::nullopt;
  PrecompiledHeader header{key, precompiled_header_stub(root), std::string(std::istreambuf_iterator<char>(stream), {})};
  // Clang trusts what it reads: a flipped bit would be a crash, or worse, another program.
  if (checksum(header.bytes) != sum) return std::nullopt;
  return header;
}

PrecompiledHeaders::PrecompiledHeaders(std::string compiler_identity)
    : compiler_identity_(std::move(compiler_identity)) {}

const PrecompiledHeader* PrecompiledHeaders::find(const KernelSource& source,
                                                  const std::vector<KernelSource>& sources) {
  if (const PrecompiledHeader* header = find_root(source.path, sources)) return header;
  if (!starts_with_tile_language(source.text)) return nullptr;
  const auto root = std::find_if(sources.begin(), sources.end(),
                                 [](const KernelSource& candidate) { return candidate.path == kTileLanguage; });
  if (root == sources.end()) return nullptr;
  return find_root(kTileLanguage, transitive_sources({root->path, root->text, source.headers}));
}

const PrecompiledHeader* PrecompiledHeaders::find_root(const std::string& root,
                                                       const std::vector<KernelSource>& sources) {
  const std::lock_guard lock(mutex_);
  auto found = loaded_.find(root);
  if (found == loaded_.end()) {
    const std::string path = find_plugin(precompiled_header_file_name(root));
    found = loaded_.emplace(root, read_precompiled_header(path, root)).first;
  }
  const std::optional<PrecompiledHeader>& header = found->second;
  return header && header->key == precompiled_header_key(compiler_identity_, sources) ? &*header : nullptr;
}

}  // namespace kiln
