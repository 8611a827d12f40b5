// Tuning over a list of configs: what a list may be, and what is tried of it.

#include "registry/tuning/listed_configs.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "autotune/database.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/tuning/function_tuning.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using Configs = std::vector<Config>;

TEST(ListedConfigsTest, BadListsSayWhatIsWrong) {
  struct Case {
    Configs configs;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {{}, {"configs is empty"}},
      {{{{"A", 1}}, {{"A", 2}}, {{"A", 1}}}, {"configs[2] is configs[0] again (A=1)"}},
      {{{{"BLOCK", 1}}, {{"BLOCKS", 2}}}, {"configs[1] has 'BLOCKS'", "configs[0] has not", "did you mean 'BLOCK'"}},
      {{{{"A", 1}, {"B", 1}}, {{"A", 2}}}, {"configs[0] has 'B' and configs[1] has not"}},
  };
  for (const Case& c : cases) {
    const std::string message = value_error([&] {
      detail::check_configs(c.configs);
      detail::check_same_tunables(c.configs);
    });
    for (const std::string& part : c.parts) EXPECT_THAT(message, HasSubstr(part));
  }
  detail::check_configs(Configs{{}});
  detail::check_configs(Configs{{{"A", 1}}, {{"A", 1}, {"B", 2}}});
  detail::check_same_tunables(Configs{{{"A", 1}, {"B", 1}}, {{"B", 2}, {"A", 2}}});
}

TEST(ListedConfigsTest, WhatIsLeftOutHasTheBasesValue) {
  const ConfigSpace space({{"A", {1, 2, 4}}, {"B", {8, 16}}}, {});
  const Config base{{"A", 1}, {"B", 16}};
  EXPECT_EQ(detail::completed_configs(space, base, Configs{{{"A", 4}}, {{"B", 16}, {"A", 4}}, {{"B", 8}}}),
            (Configs{{{"A", 4}, {"B", 16}}, {{"A", 1}, {"B", 8}}}));
  EXPECT_THAT(value_error([&] { detail::completed_configs(space, base, Configs{{{"A", 2}}, {{"C", 1}}}); }),
              Says("configs[1] (C=1)", "no tunable 'C'", "A, B"));
  EXPECT_THAT(value_error([&] { detail::completed_configs(space, base, Configs{{{"A", 3}}}); }), Says("A", "3"));
}

class FunctionTuningTest : public DevicesTest {
 protected:
  /// 0 returns what is right after WORK turns; 1 something else, 2 another shape, 3 does not launch, 4 does not
  /// compile, 5 hangs.
  TunedFunction function_of(const Configs& configs, const std::string& name = "work") {
    TunedFunction function;
    function.name = name;
    function.digest = "1";
    function.runtime = "tests 1";
    function.tensors = {x_.view()};
    function.configs = configs;
    function.call = [this](const Config& config, Stream) {
      called(config);
      if (config.at("KIND") == 5) hang();
    };
    function.compute = [this](const Config& config, Stream) {
      called(config);
      const std::int64_t kind = config.at("KIND");
      if (kind == 2) return std::vector<Tensor>{make_f32(std::vector<float>{1})};
      return std::vector<Tensor>{make_f32({1.0f, kind == 1 ? 3.0f : 2.0f})};
    };
    return function;
  }

  void called(const Config& config) {
    ++calls_;
    if (config.at("KIND") == 3) throw DeviceError("cuLaunchKernelEx", 701, "too many resources");
    if (config.at("KIND") == 4) throw CompileError("work", to_string(config), "error: no");
    for (volatile std::int64_t turn = 0; turn < 20'000 * config.at("WORK");) turn = turn + 1;
  }

  /// Until the watchdog says so: how long that takes is a matter of how fast the machine runs the others.
  void hang() const {
    for (int waited_ms = 0; hung_ == 0 && waited_ms < 60'000; ++waited_ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  static TuneReport tuned(const TunedFunction& function, bool record = true) {
    TuneOptions options;
    options.budget_s = 5;
    options.record = record;
    return tune_function(function, Stream::default_of(Device::cpu()), options);
  }

  static Outcome outcome_of(const TuneReport& report, const Config& config) {
    for (const CandidateEvidence& evidence : report.result.candidates)
      if (evidence.config == config) return evidence.outcome;
    return Outcome::untried;
  }

  static Config with(std::int64_t kind, std::int64_t work) { return {{"KIND", kind}, {"WORK", work}}; }

  const Tensor x_ = make_f32({1.0f, 2.0f, 3.0f});
  int calls_ = 0;
  std::atomic<int> hung_ = 0;
};

TEST_F(FunctionTuningTest, TheFastestThatIsRightIsChosenAndKept) {
  const TunedFunction function = function_of({with(3, 1), with(4, 1), with(0, 40), with(0, 1), with(1, 1), with(2, 1)});
  EXPECT_EQ(tuned_entry(function, Device::cpu()), nullptr);
  const TuneReport report = tuned(function);
  EXPECT_EQ(report.entry.config, with(0, 1)) << report.result.verdict;
  EXPECT_EQ(report.entry.default_config, with(0, 40)) << "the first that works";
  EXPECT_EQ(outcome_of(report, with(3, 1)), Outcome::unlaunched);
  EXPECT_EQ(outcome_of(report, with(4, 1)), Outcome::uncompiled);
  EXPECT_EQ(outcome_of(report, with(1, 1)), Outcome::mismatched);
  EXPECT_EQ(outcome_of(report, with(2, 1)), Outcome::mismatched);
  EXPECT_EQ(report.entry.tried.size(), 6U);
  const auto entry = tuned_entry(function, Device::cpu());
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->config, with(0, 1));

  TunedFunction changed = function;
  changed.digest = "2";
  EXPECT_EQ(tuned_entry(changed, Device::cpu()), nullptr) << "another function";
  changed = function;
  changed.configs.pop_back();
  EXPECT_EQ(tuned_entry(changed, Device::cpu()), nullptr) << "another list";
  changed = function;
  changed.attributes.set("alpha", 2.0);
  EXPECT_EQ(tuned_entry(changed, Device::cpu()), nullptr) << "other arguments";
}

TEST_F(FunctionTuningTest, NothingIsKeptUnlessItShallBe) {
  const TunedFunction function = function_of({with(0, 1)}, "unrecorded");
  EXPECT_EQ(tuned(function, /*record=*/false).entry.config, with(0, 1));
  EXPECT_EQ(tuned_entry(function, Device::cpu()), nullptr);
}

TEST_F(FunctionTuningTest, WhatDoesNotReturnIsRecordedMeanwhile) {
  const TunedFunction function = function_of({with(0, 1), with(5, 1)}, "hanging");
  TuneOptions options;
  options.budget_s = 5;
  options.least_time_limit_s = 0.2;
  options.hung = [&](const TuningEntry& entry) {
    ++hung_;
    const auto recorded = tuned_entry(function, Device::cpu());
    ASSERT_NE(recorded, nullptr);
    EXPECT_EQ(recorded->config, with(0, 1));
    EXPECT_EQ(entry.tried.back().outcome, Outcome::hung);
  };
  const TuneReport report = tune_function(function, Stream::default_of(Device::cpu()), options);
  EXPECT_EQ(hung_, 1);
  EXPECT_EQ(outcome_of(report, with(5, 1)), Outcome::hung);
}

TEST_F(FunctionTuningTest, AChoiceThatHangsLaterIsNone) {
  struct Case {
    Config hangs;
    int after;  ///< so many calls of the other, by which it is known as far as it must be
    bool is_recorded;
  };
  const Configs configs = {with(0, 4), with(0, 1)};
  for (const Case& c : {Case{configs[1], 60, true}, Case{configs[0], 12, false}}) {
    TunedFunction function = function_of(configs, c.is_recorded ? "late_choice" : "late_default");
    int calls_of_other = 0;
    hung_ = 0;
    function.call = [&, call = function.call](const Config& config, Stream stream) {
      call(config, stream);
      calls_of_other += config != c.hangs;
      if (config == c.hangs && calls_of_other >= c.after) hang();
    };
    TuneOptions options;
    options.budget_s = 5;
    options.least_time_limit_s = 0.3;
    options.hung = [&](const TuningEntry& entry) {
      ++hung_;
      const auto recorded = tuned_entry(function, Device::cpu());
      ASSERT_EQ(recorded != nullptr, c.is_recorded);
      EXPECT_EQ(entry.config, configs[0]);
    };
    const auto tune = [&] { return tune_function(function, Stream::default_of(Device::cpu()), options); };
    if (c.is_recorded) {
      const TuneReport report = tune();
      EXPECT_EQ(report.entry.config, configs[0]);
      EXPECT_EQ(outcome_of(report, c.hangs), Outcome::hung);
    } else {
      EXPECT_THAT(error_message<DeviceError>([&] { tune(); }),
                  Says("function 'late_default'", "its default config KIND=0 WORK=4 hung", "are allowed"));
    }
    EXPECT_EQ(hung_, 1);
    EXPECT_EQ(tuned_entry(function, Device::cpu()) != nullptr, c.is_recorded);
  }
}

TEST_F(FunctionTuningTest, WhatAConfigThatFailsHalfwayComputedIsNoReference) {
  const Config half = with(3, 1), first = with(0, 4), second = with(0, 1);
  TunedFunction function = function_of({half, first, second}, "half");
  // There is no memory for a copy of this one, whose elements are all the same.
  TensorView endless = x_.view();
  endless.shape = {std::int64_t{1} << 45};
  endless.strides = {0};
  function.compute = [&](const Config& config, Stream) {
    std::vector<Tensor> results = {make_f32({1.0f, 2.0f})};
    if (config == half) results.emplace_back(endless, nullptr);
    return results;
  };
  const TuneReport report = tuned(function);
  EXPECT_EQ(outcome_of(report, half), Outcome::unlaunched);
  EXPECT_EQ(report.entry.default_config, first);
  EXPECT_EQ(report.entry.config, second) << report.result.verdict;
}

TEST_F(FunctionTuningTest, ListsOfWhichNothingWorksAreErrors) {
  EXPECT_THAT(value_error([&] { tuned(function_of({with(3, 1), with(4, 1)}, "failing")); }),
              Says("function 'failing': none of the 2 configs", "KIND=3 WORK=1 unlaunched", "too many resources",
                   "KIND=4 WORK=1 uncompiled", "error: no"));
  EXPECT_THAT(value_error([&] { tuned(function_of({})); }), HasSubstr("configs is empty"));
  EXPECT_THAT(value_error([&] { tuned(function_of({{{"TWO WORDS", 1}}})); }), Says("TWO WORDS", "letters (a to z)"));
  const int before = calls_;
  TuneOptions graph;
  graph.measuring = MeasuringPolicy{MeasuringPolicy::Launch::graph, MeasuringPolicy::L2::hot};
  EXPECT_THAT(
      usage_message(UsageError::Kind::not_implemented,
                    [&] { tune_function(function_of({with(0, 1)}), Stream::default_of(Device::cpu()), graph); }),
      HasSubstr("graph"));
  EXPECT_EQ(calls_, before) << "nothing runs";
}

TEST_F(FunctionTuningTest, OpsAreTunedOverListsToo) {
  for (const Device device : devices_) {
    const Tensor x = make_f32(std::vector<float>(4099, 1.0f), device);
    const std::int64_t usual = resolve("abs", {x.view()}).report().config.at("BLOCK_SIZE");
    TuneOptions options;
    options.budget_s = 5;
    options.configs = {{{"BLOCK_SIZE", usual == 128 ? 256 : 128}}};
    const TuneReport report = tune_op("abs", std::vector<TensorView>{x}, {}, options);
    EXPECT_EQ(report.result.candidates.size(), 2U) << "the default and the one that is listed";
    EXPECT_FALSE(report.entry.complete) << "a search of the space is not spared";
    EXPECT_EQ(resolve("abs", {x.view()}).report().config_source, "tuned");
    EXPECT_EQ(resolve("abs", {x.view()}).report().config, report.entry.config);
    options.configs = {{{"BLOCK_SIZE", usual}}, {{"BLOCK", 64}}};
    EXPECT_THAT(value_error([&] { tune_op("abs", std::vector<TensorView>{x}, {}, options); }),
                Says("configs[1] (BLOCK=64)", "no tunable 'BLOCK'", "BLOCK_SIZE"));
  }
}

}  // namespace
}  // namespace kiln::test
