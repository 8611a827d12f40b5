#include "compiler/ptx_stores.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace kiln {
namespace {

/// An opcode that may write global memory: st, red and atom of a space that is not said or is global, and what else
/// goes there. Bulk stores of the copy engine are its own, in order with its loads.
bool may_store(std::string_view opcode) {
  const auto is = [&](std::string_view name) {
    return opcode == name || (opcode.starts_with(name) && opcode[name.size()] == '.');
  };
  if (is("call") || is("multimem") || is("wmma")) return true;
  if (!is("st") && !is("red") && !is("atom")) return false;
  for (const std::string_view space : {".shared", ".local", ".param"})
    if (opcode.find(space) != std::string_view::npos) return false;
  return true;
}

}  // namespace

std::vector<bool> follow_stores(std::string_view body, const std::vector<std::size_t>& places) {
  std::vector<bool> result(places.size(), false);
  std::set<std::string_view> reached;  // labels to which somebody jumps behind a store
  // Until no label is added: a jump back is seen only when its label has been passed.
  for (std::size_t known = std::string_view::npos; known != reached.size();) {
    known = reached.size();
    bool has_stored = false;
    // A statement at a time: kernels' own assembly has several in a line.
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t end = std::min(body.find_first_of("\n;{}", at), body.size());
      for (std::size_t i = 0; i < places.size(); ++i)
        if (places[i] >= at && places[i] < end && has_stored) result[i] = true;
      std::string_view line = body.substr(at, end - at);
      at = end + 1;
      const auto next_word = [&line] {
        const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
        const std::size_t stop = std::min(line.find_first_of(" \t;", begin), line.size());
        const std::string_view word = line.substr(begin, stop - begin);
        line.remove_prefix(stop);
        return word;
      };
      std::string_view opcode = next_word();
      if (opcode.ends_with(':')) {
        has_stored |= reached.contains(opcode.substr(0, opcode.size() - 1));
        continue;
      }
      const bool is_predicated = opcode.starts_with('@');
      if (is_predicated) opcode = next_word();
      if (may_store(opcode)) has_stored = true;
      if (opcode.starts_with("bra") && has_stored) reached.insert(next_word());
      if (opcode.starts_with("brx") && has_stored) return std::vector<bool>(places.size(), true);
      if (!is_predicated && (opcode.starts_with("bra") || opcode == "ret" || opcode == "exit")) has_stored = false;
    }
  }
  return result;
}

}  // namespace kiln
