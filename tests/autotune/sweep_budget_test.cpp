#include "autotune/sweep_budget.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/support/error_message.hpp"

namespace kiln::test {
namespace {

using testing::HasSubstr;

/// Sizes that a sweep gets through in `total_s`, of an op whose calls take `call_us`: half a second of samples, or
/// eight calls, and `setup_s` to make the inputs.
std::vector<double> measured_sizes(
    double total_s, const std::vector<double>& sizes, const std::function<double(double)>& call_us,
    const std::function<double(double)>& setup_s = [](double) { return 0.1; }) {
  double now_s = 100;
  SweepBudget budget(total_s, [&] { return now_s; });
  std::vector<double> measured;
  for (const double size : sizes) {
    if (!budget.begin(size).empty()) break;
    now_s += setup_s(size) + std::max(0.5, 8e-6 * call_us(size));
    budget.end(call_us(size));
    measured.push_back(size);
  }
  EXPECT_LE(now_s - 100, std::max(1.1 * total_s, sizes.empty() ? 0 : setup_s(sizes[0]) + 8e-6 * call_us(sizes[0])));
  return measured;
}

std::vector<double> doubling(int count) {
  std::vector<double> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(std::ldexp(1.0, i));
  return sizes;
}

TEST(SweepBudgetTest, EndsBeforeWhatDoesNotFit) {
  struct Case {
    const char* what;
    std::vector<double> sizes;
    std::function<double(double)> call_us;
    std::size_t measured;
  };
  const std::vector<Case> cases = {
      {"short calls take what their samples take", doubling(20), [](double) { return 5.0; }, 20},
      {"a far jump of short calls", {1, 1 << 20, 1 << 21}, [](double size) { return 5 + size * 1e-3; }, 3},
      {"linear: calls of 2^22 us take 34 s, after 45 s", doubling(30), [](double size) { return size; }, 22},
      {"quadratic: calls of 2^24 us take 134 s", doubling(30), [](double size) { return size * size; }, 12},
      {"the first is measured whatever it takes", {1, 2}, [](double) { return 1e8; }, 1},
      {"equal sizes", {4, 4, 4}, [](double) { return 5.0; }, 3},
  };
  for (const Case& c : cases) EXPECT_EQ(measured_sizes(60, c.sizes, c.call_us).size(), c.measured) << c.what;
}

TEST(SweepBudgetTest, InputsCountToo) {
  const auto measured =
      measured_sizes(60, doubling(30), [](double) { return 5.0; }, [](double size) { return size * 1e-3; });
  EXPECT_EQ(measured.size(), 15U) << "those of 2^15 take 33 s, after 32 s for all before";
}

TEST(SweepBudgetTest, SaysWhy) {
  double now_s = 0;
  SweepBudget budget(10, [&] { return now_s; });
  EXPECT_EQ(budget.begin(1), "");
  now_s = 6;
  budget.end(0.75e6);
  EXPECT_EQ(budget.begin(2), "it would take about 12 s, and 4 of 10 s are left for the sweep");
  for (const double total_s : {0.0, -1.0, std::nan("")})
    EXPECT_THAT(value_error([&] { SweepBudget refused(total_s); }), HasSubstr("total_s="));
}

}  // namespace
}  // namespace kiln::test
