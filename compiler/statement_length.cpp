#include "compiler/statement_length.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/source_tokens.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

/// How deep a statement nests is at most how many tokens it has, which is what can be counted with no parser. Both
/// compilers take at most 13 KB of stack for a token (compiler/compile_thread.cpp has what there is).
constexpr std::int64_t kMostStatementTokens = 10'000;

/// The words after a closing brace that go on with what it belongs to.
constexpr std::array<std::string_view, 8> kContinuations = {"else",   "and",   "or",     "xor",
                                                            "bitand", "bitor", "not_eq", "while"};

/// The words before the opening brace of a block; after another word it is a list's, or a scope's.
constexpr std::array<std::string_view, 8> kBeforeBlocks = {"else",     "do",      "try",      "const",
                                                           "noexcept", "mutable", "override", "final"};

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// What the macros of a request's files stand for. One that is defined several times counts as its longest form; what a
/// macro makes of its arguments is not followed.
class Macros {
 public:
  /// `line` is "#define NAME body".
  void define(std::string_view line) {
    std::vector<SourceToken> tokens = scan_source(line.substr(line.find('#') + 1)).tokens;
    if (tokens.size() < 2 || tokens[0].text != "define") return;
    Macro& macro = macros_[tokens[1].text];
    tokens.erase(tokens.begin(), tokens.begin() + 2);
    if (tokens.size() > macro.body.size()) macro.body = std::move(tokens);
  }

  /// Tokens that a word becomes, itself among them; more than the limit is as good as the limit.
  std::int64_t size(const std::string& word, std::int64_t depth = 0) {
    if (depth > kMostStatementTokens) return depth;
    const auto found = macros_.find(word);
    if (found == macros_.end() || found->second.is_expanding) return 1;  // within itself a macro is a plain word
    Macro& macro = found->second;
    if (macro.size > 0) return macro.size;
    macro.is_expanding = true;
    std::int64_t sum = 1;
    for (const SourceToken& token : macro.body)
      sum = std::min(sum + size(token.text, depth + 1), kMostStatementTokens + 1);
    macro.is_expanding = false;
    return macro.size = sum;
  }

 private:
  struct Macro {
    std::vector<SourceToken> body;
    std::int64_t size = 0;  ///< 0: not counted yet
    bool is_expanding = false;
  };
  std::map<std::string, Macro> macros_;
};

/// Counts the tokens of the statement under way and of those around it.
class StatementCounter {
 public:
  explicit StatementCounter(Macros& macros) : macros_(macros) {}

  /// Tokens of all open statements once `token` has been added.
  std::int64_t add(const SourceToken& token) {
    const char c = token.text[0];
    if (may_end_ && !goes_on(token)) end_statement();
    may_end_ = false;
    if (c == ')' || c == ']' || c == '}') {
      if (levels_.size() > 1) {
        total_ -= levels_.back().tokens;
        after_subscript_ = levels_.back().is_subscript;
        levels_.pop_back();
      }
      may_end_ = after_brace_ = c == '}';
      before_ = token.text;
      return total_;
    }
    const std::int64_t size = macros_.size(token.text);
    levels_.back().tokens += size;
    total_ += size;
    if (c == '<') levels_.back().has_angle = true;
    // Elements of a list stand beside one another; what else has commas is a chain of them, or template arguments,
    // whose brackets are not told from less.
    if (c == ',' && levels_.back().is_list && !levels_.back().has_angle) end_statement();
    if (c == '(' || c == '[' || c == '{')
      levels_.push_back({.is_list = c == '{' && begins_list(), .is_subscript = c == '[' && follows_word()});
    if (c == ';') {
      may_end_ = true;
      after_brace_ = false;
    }
    before_ = token.text;
    return total_;
  }

 private:
  struct Level {
    std::int64_t tokens = 0;
    bool has_angle = false;
    bool is_list = false;       ///< in braces, of an initialiser or enumeration
    bool is_subscript = false;  ///< in the brackets of an array
  };

  bool follows_word() const { return !before_.empty() && starts_word(before_[0]); }
  /// Whether a brace that comes now is a list's and not a block's.
  bool begins_list() const {
    if (before_ == "{") return levels_.back().is_list;
    if (before_ == "]") return after_subscript_;
    return before_ == "=" || before_ == "," || before_ == "(" || before_ == ">" ||
           (follows_word() && !is_one_of(kBeforeBlocks, before_));
  }

  /// Whether what came before a semicolon or after a closing brace goes on with this token.
  bool goes_on(const SourceToken& token) const {
    if (is_one_of(kContinuations, token.text)) return true;
    // An operator after a brace: S{} + S{}.
    return after_brace_ && !starts_word(token.text[0]) && token.text[0] != '{' && token.text[0] != '}';
  }

  void end_statement() {
    total_ -= levels_.back().tokens;
    levels_.back().tokens = 0;
    levels_.back().has_angle = false;
  }

  Macros& macros_;
  std::vector<Level> levels_{Level{}};
  std::int64_t total_ = 0;
  bool may_end_ = false;
  bool after_brace_ = false;
  bool after_subscript_ = false;
  std::string before_;  ///< the token before
};

}  // namespace

void check_statement_lengths(const CompileRequest& request) {
  std::vector<const KernelSource*> files = {&request.source};
  for (const KernelSource& header : request.source.headers) files.push_back(&header);
  std::vector<SourceText> texts;
  Macros macros;
  for (const KernelSource* file : files) {
    texts.push_back(scan_source(file->text));
    for (const SourceToken& directive : texts.back().directives) macros.define(directive.text);
  }
  const auto refuse = [&](std::size_t file, int line) {
    throw CompileError(request.op, request.configuration,
                       fmt::format("{}:{}: error: this statement, with those around it, has more than {} tokens, which "
                                   "is deeper than compilers can follow; split it",
                                   files[file]->path, line, kMostStatementTokens));
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    StatementCounter counter(macros);
    for (const SourceToken& token : texts[i].tokens)
      if (counter.add(token) > kMostStatementTokens) refuse(i, token.line);
    for (const SourceToken& directive : texts[i].directives) {
      const std::vector<SourceToken> tokens = scan_source(directive.text.substr(1)).tokens;
      const bool is_condition = !tokens.empty() && tokens[0].text.ends_with("if");
      if (is_condition && tokens.size() > kMostStatementTokens) refuse(i, directive.line);
    }
  }
}

}  // namespace kiln
