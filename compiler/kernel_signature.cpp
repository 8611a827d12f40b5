#include "compiler/kernel_signature.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "compiler/source_tokens.hpp"
#include "core/errors.hpp"
#include "core/nearest_name.hpp"

namespace kiln {
namespace {

using Token = SourceToken;
using Tokens = std::span<const Token>;

bool is_word(const Token& token) {
  return starts_word(token.text[0]);
}

/// Past the bracket that closes the one at `open`; the end where none does.
std::size_t after_closing(Tokens tokens, std::size_t open, std::string_view opening, std::string_view closing) {
  int depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    if (tokens[i].text == opening) ++depth;
    if (tokens[i].text == closing && --depth == 0) return i + 1;
  }
  return tokens.size();
}

/// The end of a template parameter list that opens at `open`: parentheses hide what they hold.
std::size_t after_template_list(Tokens tokens, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (text == "(") {
      i = after_closing(tokens, i, "(", ")") - 1;
      continue;
    }
    if (text == "<") ++depth;
    if (text == ">" && --depth == 0) return i + 1;
  }
  return tokens.size();
}

/// What stands between the bracket at `open` and the one before `after`.
Tokens between(Tokens tokens, std::size_t open, std::size_t after) {
  return after > open + 1 ? tokens.subspan(open + 1, after - open - 2) : Tokens();
}

/// The parts of a list between commas that no bracket holds; none for an empty list.
std::vector<Tokens> split(Tokens list) {
  std::vector<Tokens> parts;
  int round = 0, angle = 0;  // "<" inside parentheses is a comparison
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i].text.size() == 1 ? list[i].text[0] : ' ';
    if (c == '(' || c == '[' || c == '{') ++round;
    if (c == ')' || c == ']' || c == '}') --round;
    if (round == 0 && c == '<') ++angle;
    if (round == 0 && c == '>') --angle;
    if (c != ',' || round != 0 || angle != 0) continue;
    parts.push_back(list.subspan(begin, i - begin));
    begin = i + 1;
  }
  if (begin < list.size()) parts.push_back(list.subspan(begin));
  return parts;
}

/// "const tl::int64_t*": spaces where words meet and nowhere else.
std::string join(Tokens tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool words_meet = i > 0 && continues_word(tokens[i - 1].text.back()) && continues_word(tokens[i].text[0]);
    text += fmt::format("{}{}", words_meet ? " " : "", tokens[i].text);
  }
  return text;
}

constexpr std::array<std::string_view, 11> kTypeWords = {"void",     "bool",   "char",  "short", "int", "long",
                                                         "unsigned", "signed", "float", "const", "auto"};
bool is_type_word(std::string_view word) {
  return word == "double" || std::find(kTypeWords.begin(), kTypeWords.end(), word) != kTypeWords.end();
}

/// A declaration taken apart: what stands before the name, the name, and what stands after '='.
struct Declaration {
  std::vector<Token> type;
  std::string name;
  std::string fallback;
};

Declaration take_apart(Tokens tokens) {
  Declaration made;
  const auto equals = std::find_if(tokens.begin(), tokens.end(), [](const Token& token) { return token.text == "="; });
  if (equals != tokens.end())
    made.fallback = join(tokens.subspan(static_cast<std::size_t>(equals - tokens.begin()) + 1));
  for (auto token = tokens.begin(); token < equals; ++token) {
    if (token->text == "[" && token + 1 < equals && (token + 1)->text == "[") {  // [[maybe_unused]]
      const auto at = static_cast<std::size_t>(token - tokens.begin());
      token = tokens.begin() + static_cast<std::ptrdiff_t>(after_closing(tokens, at, "[", "]")) - 1;
      continue;
    }
    if (token->text != "__restrict__" && token->text != "__restrict" && token->text != "__grid_constant__")
      made.type.push_back(*token);
  }
  // A lone word, one after "::" and a word that names a built-in type are types of a parameter without a name.
  if (made.type.size() < 2) return made;
  const Token& last = made.type.back();
  if (!is_word(last) || is_type_word(last.text) || made.type[made.type.size() - 2].text == "::") return made;
  if (made.type.size() == 2 && made.type.front().text == "const") return made;
  made.name = last.text;
  made.type.pop_back();
  return made;
}

TemplateParameter template_parameter(Tokens tokens) {
  TemplateParameter made;
  Declaration parts = take_apart(tokens);
  made.name = std::move(parts.name);
  made.fallback = std::move(parts.fallback);
  const std::string type = join(parts.type);
  const std::optional<DType> dtype = spelled_dtype(type);
  if (type == "typename" || type == "class")
    made.kind = TemplateParameter::Kind::type;
  else if (type == "bool")
    made.kind = TemplateParameter::Kind::boolean;
  else if (type == "auto" || (dtype.has_value() && is_integer(*dtype)))
    made.kind = TemplateParameter::Kind::integer;
  return made;
}

KernelParameter kernel_parameter(Tokens tokens, std::size_t index) {
  KernelParameter made;
  Declaration parts = take_apart(tokens);
  made.name = parts.name.empty() ? fmt::format("arg{}", index) : std::move(parts.name);
  made.fallback = std::move(parts.fallback);
  std::vector<Token>& type = parts.type;
  const auto is_const = [](const Token& token) { return token.text == "const"; };
  if (!type.empty() && is_const(type.back())) type.pop_back();
  made.is_pointer = !type.empty() && type.back().text == "*";
  const auto star = made.is_pointer ? type.end() - 1 : type.end();
  const bool has_const = std::any_of(type.begin(), star, is_const);
  made.is_const = made.is_pointer && has_const;
  if (!made.is_pointer) std::erase_if(type, is_const);
  made.type = join(type);
  if (made.is_pointer) type.pop_back();
  std::erase_if(type, is_const);
  made.value_type = join(type);
  return made;
}

/// The kernels of a file, in order.
class KernelFinder {
 public:
  explicit KernelFinder(std::string_view text) : tokens_(scan_source(text).tokens) {}

  struct Found {
    KernelSignature signature;
    bool is_template = false;
  };

  std::vector<Found> find() {
    std::vector<Found> kernels;
    for (std::size_t i = 0; i < tokens_.size();) i = step(i, kernels);
    return kernels;
  }

 private:
  /// Looks at the token at `i`, outside every function and class; where to go on.
  std::size_t step(std::size_t i, std::vector<Found>& kernels) {
    const std::string& text = tokens_[i].text;
    if (text == "namespace") return open_namespace(i + 1);
    if (text == "extern" && i + 1 < tokens_.size() && tokens_[i + 1].text == "{") {
      scopes_.emplace_back();
      return i + 2;
    }
    if (text == "template" && i + 1 < tokens_.size() && tokens_[i + 1].text == "<") {
      const std::size_t end = after_template_list(tokens_, i + 1);
      template_list_ = between(tokens_, i + 1, end);
      return end;
    }
    if (text == "KILN_KERNEL" || text == "KILN_KERNEL_OF") return read_kernel(i + 1, kernels);
    if (text == "{") {
      template_list_.reset();
      return after_closing(tokens_, i, "{", "}");
    }
    if (text == "}" && !scopes_.empty()) scopes_.pop_back();
    if (text == ";" || text == "}") template_list_.reset();
    return i + 1;
  }

  std::size_t open_namespace(std::size_t i) {
    std::string name;
    for (; i < tokens_.size(); ++i) {
      const std::string& text = tokens_[i].text;
      if (text == "{") {
        scopes_.push_back(name.empty() ? name : fmt::format("{}::", name));
        return i + 1;
      }
      if (text == ";" || text == "=") return i;  // an alias, or a using directive
      if (text != "inline") name += text;
    }
    return i;
  }

  std::size_t read_kernel(std::size_t i, std::vector<Found>& kernels) {
    while (i < tokens_.size() && tokens_[i].text != "void" && tokens_[i].text != ";" && tokens_[i].text != "{") ++i;
    std::size_t name = i + 1;
    if (name + 1 < tokens_.size() && tokens_[name].text == "__launch_bounds__")
      name = after_closing(tokens_, name + 1, "(", ")");
    if (name + 1 >= tokens_.size() || tokens_[i].text != "void" || !is_word(tokens_[name]) ||
        tokens_[name + 1].text != "(")
      return i;
    const std::size_t end = after_closing(tokens_, name + 1, "(", ")");
    if (tokens_[end - 1].text != ")") return end;  // cut off; what the list holds is anybody's guess
    Found found;
    for (const std::string& scope : scopes_) found.signature.kernel += scope;
    found.signature.kernel += tokens_[name].text;
    found.signature.line = tokens_[name].line;
    found.is_template = template_list_.has_value();
    if (template_list_.has_value())
      for (const Tokens part : split(*template_list_))
        found.signature.template_parameters.push_back(template_parameter(part));
    const std::vector<Tokens> parts = split(between(tokens_, name + 1, end));
    const bool takes_nothing = parts.size() == 1 && join(parts.front()) == "void";
    for (std::size_t k = 0; k < parts.size() && !takes_nothing; ++k)
      found.signature.parameters.push_back(kernel_parameter(parts[k], k));
    kernels.push_back(std::move(found));
    return end;
  }

  std::vector<Token> tokens_;
  std::vector<std::string> scopes_;      ///< "mine::", or empty for a namespace without a name
  std::optional<Tokens> template_list_;  ///< of the declaration being read
};

bool same_declaration(const KernelSignature& a, const KernelSignature& b) {
  const auto same_type = [](const KernelParameter& x, const KernelParameter& y) { return x.type == y.type; };
  const auto same_kind = [](const TemplateParameter& x, const TemplateParameter& y) { return x.kind == y.kind; };
  return std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), same_type) &&
         std::equal(a.template_parameters.begin(), a.template_parameters.end(), b.template_parameters.begin(),
                    b.template_parameters.end(), same_kind);
}

std::string listing(const std::vector<std::string>& names) {
  if (names.empty())
    return "; it has none: a kernel is declared as template <...> KILN_KERNEL void NAME(...), in the file itself";
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}{}", text.empty() ? "; it has " : ", ", name);
  return text;
}

bool is_named(const std::string& qualified, std::string_view wanted) {
  return qualified == wanted ||
         (qualified.size() > wanted.size() + 2 && qualified.ends_with(wanted) &&
          std::string_view(qualified).substr(0, qualified.size() - wanted.size()).ends_with("::"));
}

}  // namespace

KernelSignature kernel_signature(const KernelSource& source, std::string_view kernel) {
  const std::vector<KernelFinder::Found> kernels = KernelFinder(source.text).find();
  std::vector<std::string> names;
  for (const auto& [signature, is_template] : kernels)
    if (std::find(names.begin(), names.end(), signature.kernel) == names.end()) names.push_back(signature.kernel);
  if (kernel.empty() && names.size() != 1)
    throw_value_error(fmt::format("kernel file '{}' has {} kernels, so the one that is meant must be named{}",
                                  source.path, names.size(), listing(names)));
  const std::string_view wanted = kernel.empty() ? std::string_view(names.front()) : kernel;
  const bool is_qualified = std::find(names.begin(), names.end(), wanted) != names.end();

  const KernelFinder::Found* chosen = nullptr;
  for (const KernelFinder::Found& found : kernels) {
    const std::string& name = found.signature.kernel;
    if (is_qualified ? name != wanted : !is_named(name, wanted)) continue;
    if (chosen != nullptr && chosen->signature.kernel != name)
      throw_value_error(fmt::format("kernel file '{}' has more than one kernel '{}': {} and {}; name its namespace too",
                                    source.path, wanted, chosen->signature.kernel, name));
    if (chosen != nullptr && !same_declaration(chosen->signature, found.signature))
      throw_value_error(
          fmt::format("kernel file '{}' declares '{}' in two ways, in lines {} and {}; give one of them another name",
                      source.path, name, chosen->signature.line, found.signature.line));
    if (chosen == nullptr) chosen = &found;
  }
  std::vector<std::string> last_parts;  // a slip is in the name itself
  for (const std::string& name : names) last_parts.push_back(name.substr(name.rfind(':') + 1));
  if (chosen == nullptr)
    throw_value_error(fmt::format("kernel file '{}' has no kernel '{}'{}{}", source.path, wanted,
                                  did_you_mean(wanted, last_parts), listing(names)));
  if (!chosen->is_template)
    throw_value_error(fmt::format(
        "kernel '{}' of file '{}' is no template, and Kiln launches instances of templates; declare it as template "
        "<int BLOCK_SIZE> KILN_KERNEL void {}(...)",
        wanted, source.path, wanted));
  for (const KernelParameter& parameter : chosen->signature.parameters)
    if (parameter.type.empty())
      throw_value_error(fmt::format("kernel '{}' of file '{}', line {}: parameter '{}' has no type", wanted,
                                    source.path, chosen->signature.line, parameter.name));
  return chosen->signature;
}

std::string full_spelling(std::string_view type) {
  for (const std::string_view scope : {"::", "kiln::", "tl::"})
    if (type.starts_with(scope)) type.remove_prefix(scope.size());
  // C++ gives these types several spellings, and kernels use them all.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kWords = {{
      {"double", "double"},
      {"float", "float"},
      {"bool", "bool"},
      {"char", "char"},
      {"signed char", "signed char"},
      {"unsigned char", "unsigned char"},
      {"short", "short"},
      {"unsigned short", "unsigned short"},
      {"int", "int"},
      {"unsigned", "unsigned int"},
      {"unsigned int", "unsigned int"},
      {"long", "long"},
      {"unsigned long", "unsigned long"},
      {"long long", "long long"},
      {"unsigned long long", "unsigned long long"},
  }};
  for (const auto& [spelling, full] : kWords)
    if (type == spelling) return std::string(full);
  for (const DType dtype : kAllDTypes) {
    const std::string_view full = info(dtype).tl_name;
    if (full.starts_with("kiln::tl::") && full.substr(10) == type) return std::string(full);
  }
  return {};
}

std::optional<DType> spelled_dtype(std::string_view type) {
  const std::string full = full_spelling(type);
  for (const DType dtype : kAllDTypes)
    if (info(dtype).tl_name == full) return dtype;
  constexpr std::array<std::pair<std::string_view, DType>, 11> kSame = {{
      {"char", DType::i8},
      {"signed char", DType::i8},
      {"unsigned char", DType::u8},
      {"short", DType::i16},
      {"unsigned short", DType::u16},
      {"int", DType::i32},
      {"unsigned int", DType::u32},
      {"long", DType::i64},
      {"unsigned long", DType::u64},
      {"long long", DType::i64},
      {"unsigned long long", DType::u64},
  }};
  for (const auto& [spelling, dtype] : kSame)
    if (full == spelling) return dtype;
  return std::nullopt;
}

}  // namespace kiln
