#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "cli/input_file_error.hpp"
#include "cli/npy.hpp"

namespace kiln::cli {
namespace {

/// Reads the one Python literal that an .npy header is: a dict of 'descr', 'fortran_order' and 'shape'.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  NpyHeader parse() {
    expect('{');
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
    while (!accept('}')) {
      const std::string key = string_literal();
      expect(':');
      if (key == "descr" && !descr) {
        descr = descr_literal();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = boolean_literal();
      } else if (key == "shape" && !shape) {
        shape = tuple_literal();
      } else {
        fail(fmt::format("its header has an unexpected or repeated key '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) malformed("nothing after the closing brace");
    if (!descr || !fortran_order || !shape) fail("its header lacks 'descr', 'fortran_order' or 'shape'");
    const DType dtype = dtype_of(*descr);
    return {dtype, shape_of(*shape, *fortran_order, dtype)};
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw InputFileError(fmt::format("cannot read '{}': {}", file_, reason));
  }
  [[noreturn]] void malformed(std::string_view expected) const {
    fail(fmt::format("its header is malformed at character {}: expected {}", at_, expected));
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool accept(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) malformed(fmt::format("'{}'", wanted));
  }

  std::string string_literal() {
    skip_blanks();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) malformed("a quoted string");
    const char quote = text_[at_++];
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char character = text_[at_];
      // Control and non-ASCII bytes would end up on the reader's terminal; no dtype or key has any.
      if (character < ' ' || character > '~' || character == '\\') malformed("plain characters in the string");
      ++at_;
    }
    if (at_ == text_.size()) malformed("a closing quote");
    return std::string(text_.substr(begin, at_++ - begin));
  }

  std::string descr_literal() {
    skip_blanks();
    if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '('))
      fail("it is a structured array (named fields); save one field alone, as a plain array");
    return string_literal();
  }

  bool boolean_literal() {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (rest.substr(0, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    malformed("True or False");
  }

  std::int64_t integer_literal() {
    skip_blanks();
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("its shape has an extent beyond 64 bits");
    if (error != std::errc()) malformed("an integer");
    if (value < 0) fail(fmt::format("its shape has a negative extent, {}", value));
    at_ += static_cast<std::size_t>(end - begin);
    // Python 2 wrote its long integers with a suffix.
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  std::vector<std::int64_t> tuple_literal() {
    expect('(');
    std::vector<std::int64_t> extents;
    while (!accept(')')) {
      extents.push_back(integer_literal());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return extents;
  }

  DType dtype_of(const std::string& descr) const {
    struct Code {
      std::string_view code;
      DType dtype;
    };
    static constexpr std::array<Code, 12> kRows{{{"f8", DType::f64},
                                                 {"f4", DType::f32},
                                                 {"f2", DType::f16},
                                                 {"i8", DType::i64},
                                                 {"i4", DType::i32},
                                                 {"i2", DType::i16},
                                                 {"i1", DType::i8},
                                                 {"u8", DType::u64},
                                                 {"u4", DType::u32},
                                                 {"u2", DType::u16},
                                                 {"u1", DType::u8},
                                                 {"b1", DType::bool_}}};
    const char order = descr.empty() ? '\0' : descr.front();
    const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
    const std::string_view code = std::string_view(descr).substr(has_order ? 1 : 0);
    if (code.substr(0, 1) == "O") fail("it is an object array (pickled Python objects); save it with a numeric dtype");
    for (const Code& row : kRows) {
      if (row.code != code) continue;
      const bool one_byte = itemsize_bytes(row.dtype) == 1;
      if (order == '>' && !one_byte)
        fail(fmt::format("it is big-endian (dtype '{}'); save it little-endian, with a.astype('<{}')", descr, code));
      if (order == '<' || one_byte) return row.dtype;
    }
    fail(
        fmt::format("Kiln has no equal of its dtype '{}'; convert it to one of f8 f4 f2, i8 i4 i2 i1, u8 u4 u2 u1, b1 "
                    "(bf16 and fp8 travel as their bits, in u2 and u1)",
                    descr));
  }

  Dims shape_of(const std::vector<std::int64_t>& extents, bool fortran_order, DType dtype) const {
    if (extents.size() > static_cast<std::size_t>(kMaxRank))
      fail(fmt::format("it has {} dimensions; Kiln's limit is {}", extents.size(), kMaxRank));
    // Zero extents are left out of the product, so that strides of an empty array cannot overflow either.
    std::int64_t bytes = itemsize_bytes(dtype);
    bool is_empty = false;
    int long_axes = 0;
    for (const std::int64_t extent : extents) {
      if (extent == 0) {
        is_empty = true;
        continue;
      }
      if (bytes > std::numeric_limits<std::int64_t>::max() / extent)
        fail("its shape overflows: no memory holds that many bytes");
      bytes *= extent;
      long_axes += extent > 1;
    }
    if (fortran_order && long_axes > 1 && !is_empty)
      fail("it is in Fortran order (column by column); save it in C order, with numpy.ascontiguousarray(a)");
    return Dims(std::span<const std::int64_t>(extents));
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::string_view file) {
  return HeaderParser(text, file).parse();
}

}  // namespace kiln::cli
