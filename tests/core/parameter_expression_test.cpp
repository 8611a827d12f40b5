#include "core/parameter_expression.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace kiln::test {
namespace {

TEST(ParameterExpression, FollowsFromParameters) {
  const std::int64_t numbers[] = {48, -3, (std::int64_t{1} << 40) + 5};
  const auto parameter = [&](int index) {
    return index < 3 ? std::as_bytes(std::span(numbers).subspan(static_cast<std::size_t>(index), 1))
                     : std::span<const std::byte>();
  };
  struct Case {
    std::string text;
    std::optional<std::int64_t> value;
  };
  for (const Case& c : {Case{"256", 256},
                        {"p0.s64", 48},
                        {"p0.s64 1 <<", 96},
                        {"p1.s32", -3},
                        {"p1.u32", 4294967293},
                        {"p2.s64", (std::int64_t{1} << 40) + 5},
                        {"p2.s32", 5},
                        {"p0.s64 p1.s64 * 2 +", -142},
                        {"p1.s64 u32 1 + u32", 4294967294},
                        {"p0.s64 p1.s64 -", 51},
                        {"p0.s64 7 / p0.s64 7 % +", 12},
                        {"p0.s64 p1.s64 min p0.s64 100 max +", 97},
                        {"p0.s64 2 >> 13 & 16 | 1 ^", 29},
                        {"9223372036854775807 2 *", -2},
                        {"p3.s64", std::nullopt},
                        {"p0.f32", std::nullopt},
                        {"p0", std::nullopt},
                        {"p.s64", std::nullopt},
                        {"p0.s64 0 /", std::nullopt},
                        {"p0.s64 64 <<", std::nullopt},
                        {"p0.s64 +", std::nullopt},
                        {"1 2", std::nullopt},
                        {"1 2 ?", std::nullopt},
                        {"99999999999999999999", std::nullopt},
                        {"", std::nullopt}})
    EXPECT_EQ(ParameterExpression(c.text).evaluate(parameter), c.value) << c.text;
}

}  // namespace
}  // namespace kiln::test
