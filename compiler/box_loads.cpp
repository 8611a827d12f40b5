#include "compiler/box_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "compiler/ptx_stores.hpp"

namespace kiln {
namespace {

/// What pipelines say of the boxes of their first steps, which maps are looked up for, and of those of any step
/// (compiler/tl/cuda/box_copy.hpp).
constexpr std::string_view kOfFirstSteps = "// kiln.box_map ", kOfAllSteps = "// kiln.box_lines ";
/// That tiles of float are operands of wgmma (compiler/tl/cuda/dot_wgmma.hpp), and that they are read otherwise.
constexpr std::string_view kReadAsTf32 = "// kiln.tf32_tiles", kReadAsFloat = "// kiln.f32_tiles";
/// More would be no stride that a person wrote.
constexpr std::size_t kMostText = 500;

std::vector<std::string_view> words(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> found;
  for (std::size_t at = text.find_first_not_of(separators); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    found.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(separators, end);
  }
  return found;
}

/// What writes a register: an opcode's parts and its operands, the register itself first.
struct Instruction {
  std::vector<std::string_view> opcode, operands;
};

/// The instructions of one kernel by the registers that they write. Registers of PTX as NVRTC makes it are written once
/// but where paths meet; those are left out by whoever looks one up.
class Definitions {
 public:
  Definitions(std::string_view body, std::string_view entry) : entry_(entry) {
    for (std::string_view line : words(body, "\n")) {
      const std::vector<std::string_view> parts = words(line, " \t,;");
      // Of a predicated instruction the second word is the opcode, which makes it none that is known here.
      const bool is_predicated = !parts.empty() && parts[0].starts_with('@');
      const std::size_t target = is_predicated ? 2 : 1;
      if (parts.size() <= target || !parts[target].starts_with('%') || parts[0].starts_with("//")) continue;
      by_register_[parts[target]].push_back({words(parts[0], "."), {parts.begin() + 1, parts.end()}});
    }
  }

  /// `operand`, a register or a number, as ParameterExpression spells it.
  std::optional<std::string> expression(std::string_view operand) const {
    if (!operand.starts_with('%')) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(operand.data(), operand.data() + operand.size(), number);
      if (error != std::errc() || end != operand.data() + operand.size()) return std::nullopt;
      return std::string(operand);
    }
    const Instruction* const instruction = find(operand);
    if (instruction == nullptr) return std::nullopt;
    std::optional<std::string> text = expression(*instruction);
    if (text.has_value() && text->size() > kMostText) return std::nullopt;
    return text;
  }

 private:
  const Instruction* find(std::string_view reg) const {
    const auto found = by_register_.find(reg);
    return found != by_register_.end() && found->second.size() == 1 ? &found->second.front() : nullptr;
  }

  /// How a number is cut to a type of PTX; nullopt for types that are no whole numbers.
  static std::optional<std::string> cut(std::string_view type) {
    if (type == "s32" || type == "b32") return " s32";
    if (type == "u32") return " u32";
    if (type == "s64" || type == "b64" || type == "u64") return "";
    return std::nullopt;
  }
  std::optional<std::string> operand_as(std::string_view operand, std::string_view type) const {
    const std::optional<std::string> text = expression(operand), suffix = cut(type);
    if (!text.has_value() || !suffix.has_value()) return std::nullopt;
    return *text + *suffix;
  }

  std::optional<std::string> parameter(const Instruction& load) const {
    const std::string prefix = "[" + std::string(entry_) + "_param_";
    std::string_view place = load.operands.at(1);
    if (!place.starts_with(prefix) || !place.ends_with(']')) return std::nullopt;
    place = place.substr(prefix.size(), place.size() - prefix.size() - 1);
    if (place.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;  // within a struct
    const std::optional<std::string> suffix = cut(load.opcode.back());
    if (!suffix.has_value()) return std::nullopt;
    return "p" + std::string(place) + "." + (suffix->empty() ? "s64" : suffix->substr(1));
  }

  std::optional<std::string> expression(const Instruction& instruction) const {
    const std::string_view name = instruction.opcode[0], type = instruction.opcode.back();
    const std::vector<std::string_view>& operands = instruction.operands;
    if (name == "ld" && operands.size() == 2 && instruction.opcode.size() == 3 && instruction.opcode[1] == "param")
      return parameter(instruction);
    if (name == "mov" && operands.size() == 2) return operand_as(operands[1], type);
    if (name == "cvt" && operands.size() == 2 && instruction.opcode.size() == 3) {
      const std::optional<std::string> from = operand_as(operands[1], type), suffix = cut(instruction.opcode[1]);
      if (!from.has_value() || !suffix.has_value()) return std::nullopt;
      return *from + *suffix;
    }
    if (name == "neg" && operands.size() == 2) return combined("-", "0", operand_as(operands[1], type), type);
    static const auto& kOperators = *new std::map<std::string_view, std::string>{
        {"add", "+"},  {"sub", "-"}, {"mul", "*"}, {"mad", "*"}, {"div", "/"},   {"rem", "%"},  {"shl", "<<"},
        {"shr", ">>"}, {"and", "&"}, {"or", "|"},  {"xor", "^"}, {"min", "min"}, {"max", "max"}};
    const auto operation = kOperators.find(name);
    if (operation == kOperators.end() || operands.size() != (name == "mad" ? 4 : 3)) return std::nullopt;
    const bool is_shift = name == "shl" || name == "shr", is_unsigned_long = type == "u64";
    if (is_unsigned_long && name == "shr") return shifted_unsigned(operands);
    if (is_unsigned_long && (name == "div" || name == "rem" || name == "min" || name == "max")) return std::nullopt;
    if ((name == "mul" || name == "mad") && (instruction.opcode.size() != 3 || instruction.opcode[1] == "hi"))
      return std::nullopt;
    const bool is_wide = instruction.opcode[1] == "wide";
    std::optional<std::string> result =
        combined(operation->second, operand_as(operands[1], type), operand_as(operands[2], is_shift ? "u32" : type),
                 is_wide ? "s64" : type);
    return name == "mad"
               ? combined("+", result, operand_as(operands[3], is_wide ? "s64" : type), is_wide ? "s64" : type)
               : result;
  }
  /// shr.u64 by a constant, as divisions by powers of two have it: a signed shift without the copies of the sign.
  std::optional<std::string> shifted_unsigned(const std::vector<std::string_view>& operands) const {
    const std::optional<std::string> shifted = operand_as(operands[1], "s64");
    int bits = 0;
    const auto [end, error] = std::from_chars(operands[2].data(), operands[2].data() + operands[2].size(), bits);
    if (!shifted.has_value() || error != std::errc() || end != operands[2].data() + operands[2].size() || bits < 1 ||
        bits > 63)
      return std::nullopt;
    return fmt::format("{} {} >> {} &", *shifted, bits, ((std::int64_t{1} << (63 - bits)) - 1) * 2 + 1);
  }
  static std::optional<std::string> combined(const std::string& operation, const std::optional<std::string>& a,
                                             const std::optional<std::string>& b, std::string_view type) {
    if (!a.has_value() || !b.has_value()) return std::nullopt;
    return *a + " " + *b + " " + operation + cut(type).value_or("");
  }

  std::string_view entry_;
  std::map<std::string_view, std::vector<Instruction>> by_register_;
};

/// box_maps<element_bytes, elements, lines> as the compiler mangles it. Following the register that holds its address
/// was the alternative: where warps ask for boxes of several tables that register is written more than once.
std::string table_symbol(const BoxForm& form) {
  return "_ZN4kiln2tl8box_mapsILi" + std::to_string(form.element_bytes) + "ELi" + std::to_string(form.elements) +
         "ELi" + std::to_string(form.lines) + "EEE";
}

std::vector<std::size_t> places_of(std::string_view text, std::string_view statement) {
  std::vector<std::size_t> places;
  for (std::size_t at = text.find(statement); at != std::string_view::npos; at = text.find(statement, at + 1))
    places.push_back(at);
  return places;
}

/// Whether two expressions are the same function of parameters. The compiler spells one in different ways, so values
/// decide: of large parameters without a pattern, so that those of different functions do not meet.
bool agree(const ParameterExpression& a, const ParameterExpression& b) {
  if (a == b) return true;
  bool has_value = false;
  for (const std::uint64_t factor : {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u}) {
    std::uint64_t number = 0;
    const auto parameter = [&](int index) {
      number = (static_cast<std::uint64_t>(index) + 1) * factor >> 40;  // what a stride may be, and more
      return std::as_bytes(std::span(&number, 1));
    };
    const std::optional<std::int64_t> value = a.evaluate(parameter);
    if (value != b.evaluate(parameter)) return false;
    has_value |= value.has_value();
  }
  return has_value;
}

/// A form, without its table, and the operand that holds how many bytes lines are apart.
struct Stated {
  BoxForm form;
  std::string line_bytes;
};
std::optional<Stated> stated_at(std::string_view body, std::size_t at, std::string_view statement) {
  const std::string_view line = body.substr(at, std::min(body.find('\n', at), body.size()) - at);
  std::istringstream text{std::string(line.substr(statement.size()))};
  std::string word;
  Stated stated;
  text >> stated.form.lines >> word >> word >> stated.form.elements >> word >> word >> stated.form.element_bytes >>
      word >> stated.line_bytes;
  if (text.fail()) return std::nullopt;
  return stated;
}

}  // namespace

std::vector<BoxLoad> box_loads(std::string_view ptx, std::string_view entry) {
  const std::size_t begin = ptx.find(".entry " + std::string(entry) + "(");
  if (begin == std::string_view::npos) return {};
  // Not to the first brace that ends a line: assembly has blocks of its own.
  const std::string_view body = ptx.substr(begin, ptx.find(".entry ", begin + 1) - begin);
  const std::vector<std::size_t> places = places_of(body, kOfFirstSteps);
  if (places.empty()) return {};

  const Definitions definitions(body, entry);
  const std::vector<bool> behind_stores = follow_stores(body, places);
  const bool rounds_float =
      body.find(kReadAsTf32) != std::string_view::npos && body.find(kReadAsFloat) == std::string_view::npos;
  std::vector<BoxLoad> loads;
  std::vector<BoxForm> follow;  // forms of which a load follows stores; one table serves all loads of a form
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::optional<Stated> stated = stated_at(body, places[i], kOfFirstSteps);
    if (!stated.has_value()) continue;
    BoxLoad load;
    load.form = stated->form;
    load.form.table = table_symbol(load.form);
    load.form.rounds_to_tf32 = rounds_float && load.form.element_bytes == 4;
    if (behind_stores[i]) follow.push_back(load.form);
    const std::optional<std::string> line_bytes = definitions.expression(stated->line_bytes);
    if (!line_bytes.has_value()) continue;
    load.line_bytes = ParameterExpression(*line_bytes);
    if (std::find(loads.begin(), loads.end(), load) == loads.end()) loads.push_back(std::move(load));
  }
  // A form's table is looked up once for a pipeline: it has no map at all where one of its loads may find lines of
  // other steps further apart than those of the first.
  for (const std::size_t at : places_of(body, kOfAllSteps)) {
    const std::optional<Stated> stated = stated_at(body, at, kOfAllSteps);
    if (!stated.has_value()) continue;
    const std::string table = table_symbol(stated->form);
    const std::optional<std::string> line_bytes = definitions.expression(stated->line_bytes);
    const bool is_of_a_first_step =
        line_bytes.has_value() && std::any_of(loads.begin(), loads.end(), [&](const BoxLoad& load) {
          return load.form.table == table && agree(load.line_bytes, ParameterExpression(*line_bytes));
        });
    if (!is_of_a_first_step) std::erase_if(loads, [&](const BoxLoad& load) { return load.form.table == table; });
  }
  for (BoxLoad& load : loads) load.follows_stores = std::find(follow.begin(), follow.end(), load.form) != follow.end();
  return loads;
}

}  // namespace kiln
