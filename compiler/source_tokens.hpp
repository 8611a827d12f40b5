#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct SourceToken {
  std::string text;
  int line;
};

/// C++ as far as a scanner tells it, which expands no macro and evaluates no condition.
struct SourceText {
  /// Words, numbers, "::" and single characters; comments and literals of text are left out.
  std::vector<SourceToken> tokens;
  /// Preprocessor lines, whole ("#define ONE 1"), without comments and with their continuations joined.
  std::vector<SourceToken> directives;
};

SourceText scan_source(std::string_view text);

/// Whether a word may start with it, and go on with it.
bool starts_word(char c) noexcept;
bool continues_word(char c) noexcept;

}  // namespace kiln
