#include "autotune/database_document.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "autotune/entry_merge.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tuned_entry.hpp"

namespace kiln::test {
namespace {

/// Entries of 1, 2, ... rows.
TuningDocument document_of(std::int64_t count) {
  TuningDocument document;
  for (std::int64_t rows = 1; rows <= count; ++rows) {
    document.entries.push_back(tuned_entry(rows));
    add_own_measurement(document.entries.back());
  }
  return document;
}

std::string replaced(std::string text, std::string_view former, std::string_view latter) {
  const std::size_t position = text.find(former);
  EXPECT_NE(position, std::string::npos) << former;
  return position == std::string::npos ? text : text.replace(position, former.size(), latter);
}

TEST(DatabaseDocumentTest, IsReadBackAsWritten) {
  TuningDocument document = document_of(3);
  document.entries[1].relative = {};  // unknown
  document.entries[1].key.shapes = parse_shape_key("<=1024x*, -, ()");
  document.entries[1].policy = {MeasuringPolicy::Launch::eager, MeasuringPolicy::L2::hot};
  document.entries[2].history.clear();
  document.entries[2].tried[0].interval_us = {};  // too few samples for one
  const std::string text = format_document(document);
  const TuningDocument read = parse_document(text);
  EXPECT_EQ(read.problem, "");
  EXPECT_THAT(read.damaged, IsEmpty());
  ASSERT_THAT(read.entries, SizeIs(3));
  EXPECT_EQ(format_document(read), text);
  EXPECT_EQ(read.entries[1].key, document.entries[1].key);
  EXPECT_EQ(read.entries[0].history, document.entries[0].history);
  EXPECT_EQ(read.entries[0].config, document.entries[0].config);
  EXPECT_EQ(read.entries[0].date_unix_s, document.entries[0].date_unix_s);
  EXPECT_EQ(read.entries[1].policy, document.entries[1].policy);
  const CandidateEvidence& winner = read.entries[0].tried[0];
  EXPECT_EQ(winner.rank, 1);
  EXPECT_EQ(winner.samples, 40);
  EXPECT_EQ(winner.outliers.slow, 1U);
  EXPECT_EQ(read.entries[0].tried[2].reason, "too many registers: \"sm_90a\"");
}

TEST(DatabaseDocumentTest, IsReadableByPeople) {
  const std::string text = format_document(document_of(1));
  EXPECT_THAT(text, Says("\n      \"op\": \"matmul\",\n", "\n      \"config\": \"BLOCK_M=128 num_warps=4\",\n",
                         "\n      \"date\": \"2026-11-20T18:40:00Z\",\n"));
  EXPECT_THAT(text, HasSubstr("\n        {\"config\":\"BLOCK_M=64 num_warps=4\",\"outcome\":\"measured\","
                              "\"median_us\":200.0,\"interval_us\":[198.0,202.0],"));
  EXPECT_THAT(format_document({}), HasSubstr("\"entries\": [\n  ]"));
}

TEST(DatabaseDocumentTest, UnknownFieldsOfAnEntryAreKept) {
  const std::string text =
      replaced(format_document(document_of(1)),
               "\"op\":", "\"power\": {\"limit_w\": 700}, \"operator\": [1, null],\n      \"op\":");
  const TuningDocument document = parse_document(text);
  ASSERT_THAT(document.entries, SizeIs(1));
  EXPECT_THAT(format_document(document), Says("\"power\": {\"limit_w\":700}", "\"operator\": [1,null]"));
  EXPECT_EQ(format_document(parse_document(format_document(document))), format_document(document));
}

TEST(DatabaseDocumentTest, ALaterSchemaIsLeftAlone) {
  const TuningDocument document =
      parse_document(replaced(format_document(document_of(2)), "\"schema_version\": 1", "\"schema_version\": 2"));
  EXPECT_TRUE(document.is_from_later);
  EXPECT_THAT(document.entries, IsEmpty());
  EXPECT_THAT(document.problem, HasSubstr("schema version is 2, and this Kiln knows versions up to 1"));
}

/// What a hand may do to the second of three entries: the others are not touched by it, and the message says what it
/// is that is wrong.
TEST(DatabaseDocumentTest, ADamagedEntryCostsNoOther) {
  struct Edit {
    const char* former;
    const char* latter;
    const char* message;
  };
  const Edit edits[] = {
      {"\"op\": \"matmul\"", "\"op\": 7", "'op' is 7; expected a string"},
      {"\"op\": \"matmul\"", "\"op\": \"\"", "'op' is \"\"; expected a string that is not empty"},
      {"\"op\": \"matmul\",", "", "it lacks 'op'"},
      {"\"processors\": 132", "\"processors\": -1", "'processors' is -1; expected a whole number of 1 or more"},
      {"\"processors\": 132", "\"processors\": 1.5", "'processors' is 1.5"},
      {"\"processors\": 132", "\"processors\": 18446744073709551615", "'processors' is 18446744073709551615"},
      {"\"processors\": 132", "\"processors\": 1e400", "number overflow"},
      {"\"processors\": 132", "\"processors\": true", "'processors' is true"},
      {"\"shapes\": \"2x4096", "\"shapes\": \"two", "'shapes': shape key 'two, 4096x1024': 'two' is no shape"},
      {"\"config\": \"BLOCK_M=128 ", "\"config\": \"BLOCK_M=many ", "'BLOCK_M=many' has no integer"},
      {"\"config\": \"BLOCK_M=128 ", "\"config\": \"BLOCK_M=99999999999999999999 ", "does not fit a 64-bit integer"},
      {"\"config\": \"BLOCK_M=128 ", "\"config\": \"BLOCK_M=32 ",
       "'config' is BLOCK_M=32 num_warps=4, which 'tried' has"},
      {"\"config\": \"BLOCK_M=128 ", "\"config\": \"BLOCK_M=256 ", "which 'tried' has no time of"},
      {"\"launch\": \"graph\"", "\"launch\": \"fast\"", "'launch' is \"fast\"; expected \"eager\" or \"graph\""},
      {"\"date\": \"2026-11-20T", "\"date\": \"2026-13-20T", "expected a date like 2026-11-20T19:00:00Z"},
      {"\"median_us\":150.0", "\"median_us\":\"fast\"", "'median_us' is \"fast\"; expected numbers above 0"},
      {"\"median_us\":200.0", "\"median_us\":0", "'tried', item 2: 'median_us' is 0; expected numbers above 0"},
      {"\"median_us\":200.0", "\"median_us\":-1e308", "'tried', item 2: 'median_us' is -1e+308"},
      {"\"interval_us\":[198.0,202.0]", "\"interval_us\":[202.0,198.0]", "expected the lower number first"},
      {"\"interval_us\":[198.0,202.0]", "\"interval_us\":[198.0]", "expected two numbers, [low, high]"},
      {"\"interval_us\":[198.0,202.0]", "\"interval_us\":{}", "expected two numbers, [low, high]"},
      {"\"outcome\":\"measured\"", "\"outcome\":\"splendid\"", "splendid"},
      {"\"tried\": [", "\"tried\": [null,", "'tried', item 1: it is null; expected an object"},
      {"\"outliers\":{", "\"outliers\":[],\"x\":{", "it is []; expected an object"},
      {"\"history\": [", "\"history\": 5, \"tales\": [", "'history' is 5; expected an array"},
      {"\"dtypes\":", "\"op\": \"matmul\",\n      \"dtypes\":", "it has the key 'op' twice in one object"},
      {"\"samples\":40", "\"samples\":40,\"samples\":41", "it has the key 'samples' twice in one object"},
      {"\"variant\": \"tile\",", "\"variant\": \"tile\"", "it is no JSON: parse error at line"},
      {"\"variant\": \"tile\",", "\"variant\": \"tile,", "it is no JSON"},
      {"\"variant\": \"tile\",", "\"variant\": \"\xff\xfe\",", "it is no JSON"},
      {"\"variant\": \"tile\",", "\"variant\": {\"a\": ", "it is no JSON"},
      {"\"variant\": \"tile\",", "}]}", "it is no JSON"},
      {"\"variant\": \"tile\",", "<<<<<<< HEAD", "it is no JSON"},
      {"\"variant\": \"tile\",", "\"variant\": NaN,", "it is no JSON"},
  };
  const TuningDocument whole = document_of(3);
  const std::string text = format_document(whole);
  const std::string second = format_entry(whole.entries[1]);
  for (const Edit& edit : edits) {
    SCOPED_TRACE(edit.latter);
    const TuningDocument read = parse_document(replaced(text, second, replaced(second, edit.former, edit.latter)));
    ASSERT_THAT(read.entries, SizeIs(2));
    EXPECT_EQ(format_entry(read.entries[0]), format_entry(whole.entries[0]));
    EXPECT_EQ(format_entry(read.entries[1]), format_entry(whole.entries[2]));
    ASSERT_THAT(read.damaged, SizeIs(1));
    EXPECT_THAT(read.damaged[0].where, StartsWith("entry 2 ("));
    EXPECT_THAT(read.damaged[0].reason, HasSubstr(edit.message));
  }
}

TEST(DatabaseDocumentTest, DamagedEntriesAreWrittenAsTheyCame) {
  const std::string text = format_document(document_of(2));
  const TuningDocument read = parse_document(replaced(text, "\"processors\": 132", "\"processors\": \"132\""));
  ASSERT_THAT(read.damaged, SizeIs(1));
  EXPECT_THAT(read.damaged[0].where, HasSubstr("entry 1 (matmul 1x4096, 4096x1024)"));
  const std::string again = format_document(read);
  EXPECT_THAT(again, HasSubstr("\"processors\":\"132\""));
  // A hand mends what a hand broke.
  const TuningDocument mended = parse_document(replaced(again, "\"processors\":\"132\"", "\"processors\":132"));
  EXPECT_THAT(mended.damaged, IsEmpty());
  EXPECT_THAT(mended.entries, SizeIs(2));
}

TEST(DatabaseDocumentTest, WhatIsNoDatabaseIsRefusedWithAReason) {
  std::string deep(200'000, '[');
  std::string deep_objects;
  for (int i = 0; i < 100'000; ++i) deep_objects += "{\"a\":";
  struct Case {
    std::string text;
    const char* message;
  };
  const Case cases[] = {
      {"", "it is no JSON"},
      {"   \n", "it is no JSON"},
      {std::string(64, '\0'), "it is no JSON"},
      {"null", "it is null; expected an object"},
      {"[]", "it is []; expected an object"},
      {"{}", "it lacks 'format'"},
      {R"({"format": 3})", "'format' is 3; expected a string"},
      {R"({"format": "kiln-trace", "schema_version": 1, "entries": []})", "its 'format' is not \"kiln-tuning\""},
      {R"({"format": "kiln-tuning", "entries": []})", "it lacks 'schema_version'"},
      {R"({"format": "kiln-tuning", "schema_version": 0, "entries": []})", "'schema_version' is 0"},
      {R"({"format": "kiln-tuning", "schema_version": 1, "entries": {}})", "'entries' is {}; expected an array"},
      {R"({"format": "kiln-tuning", "format": "kiln-tuning"})", "it has the key 'format' twice"},
      {deep, "it is nested deeper than 32 levels"},
      {deep_objects, "it is nested deeper than 32 levels"},
  };
  for (const Case& bad : cases) {
    SCOPED_TRACE(bad.text.substr(0, 80));
    const TuningDocument read = parse_document(bad.text);
    EXPECT_THAT(read.problem, HasSubstr(bad.message));
    EXPECT_THAT(read.entries, IsEmpty());
  }
  // Far more damage than a hand does is not remembered piece by piece.
  std::string zeros = R"({"format": "kiln-tuning", "schema_version": 1, "entries": [0)";
  std::string braces;
  for (int i = 0; i < 100'000; ++i) zeros += ",0";
  for (int i = 0; i < 100'000; ++i) braces += "    {\n";
  for (const std::string& text : {zeros + "]}", braces}) {
    const TuningDocument read = parse_document(text);
    EXPECT_NE(read.problem, "");
    EXPECT_THAT(read.damaged, SizeIs(10'000));
  }
  const TuningDocument strange =
      parse_document(R"({"format": "kiln-tuning", "schema_version": 1, "entries": [1, null, "x", [], {}], "more": 1})");
  EXPECT_EQ(strange.problem, "");
  EXPECT_THAT(strange.damaged, SizeIs(5));
}

TEST(DatabaseDocumentTest, ATruncatedTextKeepsTheEntriesBeforeTheCut) {
  const TuningDocument whole = document_of(4);
  const std::string text = format_document(whole);
  std::size_t most = 0;
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size < text.size() - 3; size += 13) sizes.push_back(size);
  sizes.push_back(text.size() - 3);  // all but the end of the whole
  for (const std::size_t size : sizes) {
    const TuningDocument read = parse_document(std::string_view(text).substr(0, size));
    ASSERT_THAT(read.problem, Not(IsEmpty())) << size;
    ASSERT_LE(read.damaged.size(), 1U);
    ASSERT_GE(read.entries.size(), most);
    most = read.entries.size();
    // Every entry that ends before the cut, and as it was.
    std::size_t expected = 0;
    while (expected < 4 &&
           text.find(format_entry(whole.entries[expected])) + format_entry(whole.entries[expected]).size() <= size)
      ++expected;
    ASSERT_EQ(read.entries.size(), expected) << size;
    for (std::size_t i = 0; i < read.entries.size(); ++i)
      ASSERT_EQ(format_entry(read.entries[i]), format_entry(whole.entries[i]));
  }
  EXPECT_EQ(most, 4U);
}

}  // namespace
}  // namespace kiln::test
