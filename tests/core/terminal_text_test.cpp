#include "core/terminal_text.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/text_table.hpp"

namespace kiln::test {
namespace {

TEST(TerminalText, SpellsWhatATerminalWouldActUpon) {
  struct Case {
    std::string text, safe;
  };
  const Case cases[] = {
      {"", ""},
      {"plain, and \xc3\xa4\xe2\x82\xac\xf0\x9f\x94\xa5", "plain, and \xc3\xa4\xe2\x82\xac\xf0\x9f\x94\xa5"},
      {"\x1b]0;title\x07", "\\x1b]0;title\\x07"},
      {std::string("a\0b\r\x7f", 5), "a\\x00b\\x0d\\x7f"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},            // CSI as one character
      {"\xc2\xa0", "\xc2\xa0"},  // the first beyond
      {"\x9b"
       "31m \xff",
       "\\x9b31m \\xff"},  // no UTF-8
      {"\xc3", "\\xc3"},   // cut off
      {"\xe2\x82", "\\xe2\\x82"},
      {"\xc0\x9b \xe0\x82\x9b", "\\xc0\\x9b \\xe0\\x82\\x9b"},  // longer than need be
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                      // half of a pair
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},             // beyond the last
      {"\x1b\xc3\xa4\x1b", "\\x1b\xc3\xa4\\x1b"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(terminal_text(c.text), c.safe);
    EXPECT_EQ(terminal_line(c.text), c.safe);
    EXPECT_EQ(terminal_text(c.safe), c.safe) << "made safe twice";
  }
}

TEST(TerminalText, LinesStayInTextAndNotInALine) {
  EXPECT_EQ(terminal_text("a\n\tb\n"), "a\n\tb\n");
  EXPECT_EQ(terminal_line("a\n\tb\n"), "a\\n\\tb\\n");
}

TEST(TerminalText, NoByteIsLeftThatControls) {
  for (int lead = 0; lead < 256; ++lead)
    for (int next = 0; next < 256; ++next) {
      const std::string line = terminal_line(std::string{static_cast<char>(lead), static_cast<char>(next)});
      for (std::size_t i = 0; i < line.size(); ++i) {
        const auto byte = static_cast<unsigned char>(line[i]);
        EXPECT_TRUE(byte >= 0x20 && byte != 0x7f) << lead << ' ' << next;
        EXPECT_FALSE(byte == 0xc2 && static_cast<unsigned char>(line.at(i + 1)) < 0xa0) << lead << ' ' << next;
      }
    }
}

TEST(TerminalText, CellsOfTablesAreLines) {
  EXPECT_EQ(format_table({{"a\nb", "\x1b[2J"}}), "a\\nb  \\x1b[2J\n");
}

}  // namespace
}  // namespace kiln::test
