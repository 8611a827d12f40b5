#include "compiler/source_tokens.hpp"

#include <fmt/format.h>

#include <cctype>

namespace kiln {

bool starts_word(char c) noexcept {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool continues_word(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  SourceText read() {
    SourceText all;
    bool at_line_start = true;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        at_line_start = true;
        skip(1);
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        skip(1);
      } else if (c == '#' && at_line_start) {
        all.directives.push_back(directive());
      } else if (skip_comment()) {
        continue;
      } else if (starts_raw_string()) {
        skip_raw_string();
      } else if (c == '"' || c == '\'') {
        skip_literal(c);
      } else {
        all.tokens.push_back(token());
        at_line_start = false;
      }
    }
    return all;
  }

 private:
  bool sees(std::string_view wanted) const { return text_.substr(at_).starts_with(wanted); }

  void skip(std::size_t count) {
    for (; count > 0 && at_ < text_.size(); --count) line_ += text_[at_++] == '\n' ? 1 : 0;
  }

  void skip_past(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    skip(found == std::string_view::npos ? text_.size() : found + end.size() - at_);
  }

  bool skip_comment() {
    if (sees("//")) {
      while (at_ < text_.size() && text_[at_] != '\n') skip(sees("\\\n") ? 2 : 1);
      return true;
    }
    if (!sees("/*")) return false;
    skip(2);
    skip_past("*/");
    return true;
  }

  SourceToken directive() {
    SourceToken made{{}, line_};
    while (at_ < text_.size() && text_[at_] != '\n') {
      const std::size_t begin = at_;
      if (skip_comment()) {
        made.text += ' ';
      } else if (sees("\\\n")) {
        skip(2);
      } else {
        skip(1);
        made.text += text_[begin];
      }
    }
    return made;
  }

  bool starts_raw_string() const { return sees("R\""); }
  void skip_raw_string() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return skip(text_.size());
    const std::string end = fmt::format("){}\"", text_.substr(at_ + 2, open - at_ - 2));
    skip(open - at_);
    skip_past(end);
  }

  void skip_literal(char quote) {
    skip(1);
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') skip(text_[at_] == '\\' ? 2 : 1);
    skip(1);
  }

  SourceToken token() {
    std::size_t size = 1;
    if (starts_word(text_[at_])) {
      while (at_ + size < text_.size() && continues_word(text_[at_ + size])) ++size;
    } else if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      // A quote between digits belongs to the number.
      while (at_ + size < text_.size() &&
             (continues_word(text_[at_ + size]) || text_[at_ + size] == '.' || text_[at_ + size] == '\''))
        ++size;
    } else if (sees("::")) {
      size = 2;
    }
    SourceToken made{std::string(text_.substr(at_, size)), line_};
    skip(size);
    return made;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

SourceText scan_source(std::string_view text) {
  return Scanner(text).read();
}

}  // namespace kiln
