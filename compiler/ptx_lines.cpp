#include "compiler/ptx_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "compiler/embedded_files.hpp"

namespace kiln {
namespace {

/// File, line and column.
using Location = std::array<int, 3>;

/// The next word of a line: up to a blank, comma or the end.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t,"), line.size());
  const std::size_t end = std::min(line.find_first_of(" \t,;", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

Location take_location(std::string_view& line) {
  Location location{};
  for (int& number : location) {
    const std::string_view word = take_word(line);
    std::from_chars(word.data(), word.data() + word.size(), number);
  }
  return location;
}

void count(std::string_view opcode, LineInstructions& at) {
  const auto has = [&](std::string_view part) { return opcode.find(part) != std::string_view::npos; };
  ++at.all;
  if (opcode.starts_with("cp."))
    at.copies += has(".async") && !has("commit") && !has("wait");
  else if (opcode.starts_with("wgmma.mma") || opcode.starts_with("mma.") || opcode.starts_with("wmma.mma"))
    ++at.products;
  else if (opcode.starts_with("shfl") || opcode.starts_with("redux"))
    ++at.shuffles;
  else if (opcode.starts_with("bar") || opcode.starts_with("mbarrier.try_wait") || opcode.starts_with("mbarrier.test"))
    ++at.barriers;
  else if (opcode.starts_with("ldmatrix") || opcode.starts_with("ld.shared"))
    ++at.shared_loads;
  else if (opcode.starts_with("stmatrix") || opcode.starts_with("st.shared"))
    ++at.shared_stores;
  else if (has(".local"))
    ++at.local_accesses;
  else if (opcode.starts_with("ld.") && !has(".param") && !has(".const"))
    ++at.global_loads;
  else if ((opcode.starts_with("st.") && !has(".param")) || opcode.starts_with("red.") || opcode.starts_with("atom."))
    ++at.global_stores;
}

/// The paths of files by number; their list stands behind the code.
std::map<int, std::string> files_of(std::string_view ptx) {
  std::map<int, std::string> files;
  for (std::size_t at = ptx.find("\t.file"); at != std::string_view::npos; at = ptx.find("\t.file", at + 1)) {
    std::string_view line = ptx.substr(at, ptx.find('\n', at + 1) - at);
    take_word(line);
    const std::string_view word = take_word(line);
    const std::size_t begin = line.find('"'), end = line.rfind('"');
    if (begin == std::string_view::npos || end <= begin) continue;
    int number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    files[number] = line.substr(begin + 1, end - begin - 1);
  }
  return files;
}

/// A header of the tile language, or of what it includes.
bool is_of_the_language(std::string_view path) {
  const std::span<const EmbeddedFile> files = embedded_files();
  return std::any_of(files.begin(), files.end(), [&](const EmbeddedFile& file) {
    return (file.path.starts_with("compiler/tl/") || file.path.starts_with("core/")) && path.ends_with(file.path);
  });
}

}  // namespace

std::vector<LineInstructions> instructions_by_line(std::string_view ptx) {
  std::map<int, std::string> files = files_of(ptx);
  std::erase_if(files, [](const auto& file) { return is_of_the_language(file.second); });
  const auto is_counted = [&](const Location& location) { return files.contains(location[0]) && location[1] > 0; };
  std::map<std::array<int, 2>, LineInstructions> lines;
  std::map<Location, Location> callers;  // of inlined code, as the directives before have named them
  std::array<int, 2> now{};
  bool is_inside = false;
  // A statement at a time: kernels' own assembly has several in a line.
  for (std::size_t at = 0; at < ptx.size();) {
    const std::size_t end = std::min(ptx.find_first_of("\n;", at), ptx.size());
    std::string_view text = ptx.substr(at, end - at);
    at = end + 1;
    std::string_view word = take_word(text);
    if (word == "{" && !is_inside) is_inside = true;
    while (word.starts_with('{') || word.starts_with('}')) {
      word.remove_prefix(1);
      if (word.empty()) word = take_word(text);
    }
    if (word == ".loc") {
      Location location = take_location(text);
      if (const std::size_t inlined = text.find("inlined_at"); inlined != std::string_view::npos) {
        text.remove_prefix(inlined);
        take_word(text);
        callers[location] = take_location(text);
      } else {
        callers.erase(location);
      }
      std::size_t steps = 0;
      for (auto caller = callers.find(location);
           !is_counted(location) && caller != callers.end() && steps <= callers.size();
           caller = callers.find(location), ++steps)
        location = caller->second;
      now = is_counted(location) ? std::array{location[0], location[1]} : std::array{0, 0};
      continue;
    }
    if (word.starts_with('@')) word = take_word(text);
    if (!is_inside || word.empty() || word.starts_with('.') || word.starts_with('/') || word.ends_with(':')) continue;
    if (word[0] < 'a' || word[0] > 'z') continue;
    count(word, lines[now]);
  }
  std::vector<LineInstructions> result;
  for (auto& [place, counted] : lines) {
    if (place[0] != 0) counted.file = files.at(place[0]);
    counted.line = place[1];
    result.push_back(std::move(counted));
  }
  return result;
}

}  // namespace kiln
