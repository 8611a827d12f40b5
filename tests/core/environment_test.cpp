#include "core/environment.hpp"

#include <cstdlib>
#include <set>
#include <string>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/scoped_variable.hpp"

namespace kiln::test {
namespace {

TEST(Environment, TableIsCompleteAndUnique) {
  std::set<std::string_view> names;
  for (const EnvironmentVariable& variable : environment_variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.fallback.empty()) << variable.name;
    EXPECT_FALSE(variable.meaning.empty()) << variable.name;
    EXPECT_NO_THROW(environment(variable.name));
  }
  EXPECT_TRUE(names.contains("KILN_CACHE_DIR"));
}

TEST(Environment, RefusesNamesOutsideTheTable) {
  EXPECT_THROW(environment("KILN_NO_SUCH_THING"), InternalError);
}

TEST(Environment, EmptyIsUnset) {
  const ScopedVariable variable("KILN_CACHE_DIR", "");
  EXPECT_EQ(environment("KILN_CACHE_DIR"), std::nullopt);
  EXPECT_EQ(environment_bytes("KILN_CACHE_DIR"), std::nullopt);
  EXPECT_EQ(environment_int("KILN_CACHE_DIR"), std::nullopt);
  EXPECT_EQ(environment_bool("KILN_CACHE_DIR"), std::nullopt);
}

TEST(Environment, ReadsText) {
  const ScopedVariable variable("KILN_CACHE_DIR", "/somewhere else");
  EXPECT_EQ(environment("KILN_CACHE_DIR"), "/somewhere else");
}

std::optional<std::int64_t> bytes(const char* value) {
  const ScopedVariable variable("KILN_CACHE_SIZE", value);
  return environment_bytes("KILN_CACHE_SIZE");
}

TEST(Environment, ReadsSizes) {
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("512"), 512);
  EXPECT_EQ(bytes("3k"), 3 * 1024);
  EXPECT_EQ(bytes("64M"), 64LL << 20);
  EXPECT_EQ(bytes("2G"), 2LL << 30);
  EXPECT_EQ(bytes("1T"), 1LL << 40);
}

TEST(Environment, RefusesMalformedSizes) {
  for (const char* value : {"x", "-1", "1.5G", "2GG", "2 G", "M", "9999999T", "99999999999999999999", "1P"})
    EXPECT_THAT(value_error([&] { bytes(value); }), HasSubstr("KILN_CACHE_SIZE is '" + std::string(value) + "'"));
}

TEST(Environment, ReadsIntegers) {
  const auto number = [](const char* value) {
    const ScopedVariable variable("KILN_NUM_THREADS", value);
    return environment_int("KILN_NUM_THREADS");
  };
  EXPECT_EQ(number("8"), 8);
  EXPECT_EQ(number("-2"), -2);
  for (const char* value : {"8x", "eight", "8.0", " 8", "99999999999999999999"})
    EXPECT_THROW(number(value), UsageError) << value;
}

TEST(Environment, ReadsSeconds) {
  const auto seconds = [](const char* value) {
    const ScopedVariable variable("KILN_TUNING_BUDGET", value);
    return environment_seconds("KILN_TUNING_BUDGET");
  };
  EXPECT_EQ(seconds("2"), 2);
  EXPECT_EQ(seconds("0.5"), 0.5);
  for (const char* value : {"abc", "nan", "inf", "-5", "0", "2s", " 2", "1e999"})
    EXPECT_THROW(seconds(value), UsageError) << value;
}

TEST(Environment, ReadsBooleans) {
  const auto flag = [](const char* value) {
    const ScopedVariable variable("KILN_NUM_THREADS", value);
    return environment_bool("KILN_NUM_THREADS");
  };
  for (const char* value : {"1", "true", "YES", "On"}) EXPECT_EQ(flag(value), true) << value;
  for (const char* value : {"0", "False", "no", "off"}) EXPECT_EQ(flag(value), false) << value;
  for (const char* value : {"2", "maybe", "t"}) EXPECT_THROW(flag(value), UsageError) << value;
}

}  // namespace
}  // namespace kiln::test
