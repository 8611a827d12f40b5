#include "autotune/database_content.hpp"

#include <fmt/format.h>

#include <utility>

#include "autotune/database_limit.hpp"
#include "core/content_hash.hpp"

namespace kiln {

std::string database_file_name(const std::string& device_model) {
  constexpr std::size_t kLongest = 200;  // file systems allow 255, of which the lock's suffix takes some
  std::string name;
  for (const char c : device_model) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-';
    if (is_plain || (c == '.' && !name.empty()))
      name += c;
    else if (c == ' ')
      name += '_';
    else
      name += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  if (name.size() > kLongest) name = name.substr(0, kLongest) + ContentHasher().field(device_model).digest().hex();
  return name.append(kDatabaseSuffix);
}

DatabaseContent parse_content(const std::string& name, const DatabaseFolder::Content& file) {
  DatabaseContent content;
  content.problem = file.problem;
  if (file.is_cut)
    content.problem = fmt::format("it has {} bytes, more than any tuning database", file.version.size_bytes);
  content.is_left_alone = file.is_cut && !begins_as_document(file.text);
  if (file.text.empty() || content.is_left_alone) return content;
  TuningDocument document = parse_document(file.text);
  content.damaged = std::move(document.damaged);
  if (content.problem.empty()) content.problem = std::move(document.problem);
  content.is_left_alone = document.is_from_later;
  for (TuningEntry& entry : document.entries) {
    const std::string home = database_file_name(entry.key.device_model);
    if (home == name)
      content.entries.add(std::move(entry));
    else
      content.damaged.push_back({to_string(entry.key),
                                 fmt::format("it is of device '{}', whose file is {}", entry.key.device_model, home),
                                 format_entry(entry)});
  }
  return content;
}

std::string format_content(DatabaseContent& content) {
  TuningDocument document;
  for (const auto& entry : content.entries.sorted()) document.entries.push_back(*entry);
  document.damaged = content.damaged;
  std::string text = format_document(document);
  if (text.size() <= kMaxTuningDocumentBytes) return text;
  // By more than it must be, so that the next change need not do so again.
  shrink_to(kMaxTuningDocumentBytes / 4 * 3, content.entries, content.damaged);
  return format_content(content);
}

std::string summary(const std::filesystem::path& path, const DatabaseContent& content) {
  if (!content.problem.empty())
    return fmt::format("tuning database {}: {}; {} of its entries can be used", path.string(), content.problem,
                       content.entries.size());
  if (content.damaged.empty()) return "";
  return fmt::format("tuning database {}: {}: {}{}", path.string(), content.damaged[0].where, content.damaged[0].reason,
                     content.damaged.size() == 1 ? "" : fmt::format(" (and {} more)", content.damaged.size() - 1));
}

}  // namespace kiln
