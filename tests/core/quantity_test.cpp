#include "core/quantity.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/errors.hpp"
#include "core/text_table.hpp"

namespace kiln::test {
namespace {

TEST(QuantityTest, DurationsHaveThreeDigits) {
  EXPECT_EQ(format_duration_us(0.8124), "812 ns");
  EXPECT_EQ(format_duration_us(5.124), "5.12 us");
  EXPECT_EQ(format_duration_us(999.9), "1.00 ms");
  EXPECT_EQ(format_duration_us(21300), "21.3 ms");
  EXPECT_EQ(format_duration_us(1.5e6), "1.50 s");
  EXPECT_EQ(format_duration_us(0), "0.00 ns");
}

TEST(QuantityTest, BytesAndAges) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(format_count(1, "artifact"), "1 artifact");
  EXPECT_EQ(format_count(0, "artifact"), "0 artifacts");
  EXPECT_EQ(format_count(1, "tuning entry"), "1 tuning entry");
  EXPECT_EQ(format_count(2, "tuning entry"), "2 tuning entries");
  EXPECT_EQ(format_count(2, "array"), "2 arrays");
  EXPECT_EQ(format_age_s(-5), "0 s");
  EXPECT_EQ(format_age_s(3600), "60 min");
  EXPECT_EQ(format_age_s(86400 * 9), "9 days");
}

TEST(QuantityTest, ReadsSizes) {
  EXPECT_EQ(parse_bytes("0", "--to"), 0);
  EXPECT_EQ(parse_bytes("4096", "--to"), 4096);
  EXPECT_EQ(parse_bytes("512M", "--to"), std::int64_t{512} << 20);
  EXPECT_EQ(parse_bytes("2g", "--to"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("64KiB", "--to"), 65536);
  EXPECT_EQ(parse_bytes("8B", "--to"), 8);
  for (const std::string text : {"", "M", "-1", "1.5G", "5X", "5MM", "9999999999T", "0x10", "5 M"})
    EXPECT_THROW(parse_bytes(text, "--to"), UsageError) << text;
}

TEST(TableTest, AlignsColumnsWithoutTrailingBlanks) {
  EXPECT_EQ(format_table({{"a", "bb", "c"}, {"aaa", "b"}, {"a very long single cell"}}, 2),
            "  a    bb  c\n  aaa  b\n  a very long single cell\n");
}

}  // namespace
}  // namespace kiln::test
