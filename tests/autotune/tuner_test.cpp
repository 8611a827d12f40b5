#include "autotune/tuner.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "tests/autotune/synthetic_machine.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using namespace std::chrono_literals;
using synthetic::Machine;
using synthetic::Surface;

/// A tuner whose world is a synthetic machine; its clock is the machine's, so that budgets mean the same on any host.
class TunerTest : public testing::Test {
 protected:
  void use(Surface surface) {
    surface_ = std::move(surface);
    machine_.emplace(surface_, 1);
    callbacks_.compile = [this](std::size_t candidate) {
      const std::lock_guard lock(mutex_);
      ++compiled_[candidate];
    };
    callbacks_.run = [this](std::size_t candidate) { checked_.push_back(candidate); };
    callbacks_.measure = [this](const MeasureRequest& request) {
      EXPECT_EQ(compiled_count(request.candidate), 1);
      if (surface_.fails[request.candidate]) throw DeviceError("cuLaunchKernelEx", 701, "too many resources");
      return machine_->measure(request.candidate, request.samples);
    };
    callbacks_.now_s = [this] { return machine_->now_us() * 1e-6; };
  }

  void use_costs(const std::vector<double>& cost_us) {
    Surface surface;
    for (std::size_t i = 0; i < cost_us.size(); ++i) {
      surface.candidates.push_back({.config = {{"A", static_cast<std::int64_t>(i)}}, .ruled_out = {}});
      surface.cost_us.push_back(cost_us[i]);
      surface.fails.push_back(false);
    }
    use(std::move(surface));
  }

  int compiled_count(std::size_t candidate) {
    const std::lock_guard lock(mutex_);
    return compiled_[candidate];
  }

  /// A measurement that `hangs` does not return until its candidate is reported.
  void let_hang(const std::function<bool(const MeasureRequest&)>& hangs) {
    callbacks_.now_s = nullptr;
    options_.least_time_limit_s = 0.05;
    reported_.reset();
    is_reported_ = false;
    callbacks_.hung = [this](const TuningResult& result) {
      reported_ = result;
      is_reported_ = true;
    };
    callbacks_.measure = [this, hangs](const MeasureRequest& request) {
      EXPECT_GT(request.time_limit_s, 0.049);
      while (hangs(request) && !is_reported_) std::this_thread::sleep_for(1ms);
      return machine_->measure(request.candidate, request.samples);
    };
  }

  TuningResult tune_it(const std::stop_token& stop = {}) {
    return tune(surface_.candidates, surface_.default_index, callbacks_, options_, stop);
  }

  Surface surface_;
  std::optional<Machine> machine_;
  TuningCallbacks callbacks_;
  TunerOptions options_;
  std::mutex mutex_;
  std::map<std::size_t, int> compiled_;
  std::vector<std::size_t> checked_;
  std::optional<TuningResult> reported_;
  std::atomic<bool> is_reported_ = false;
};

TEST_F(TunerTest, FindsTheBest) {
  use(synthetic::transpose_surface());
  options_.compile_threads = 3;
  const TuningResult result = tune_it();
  EXPECT_TRUE(result.complete);
  EXPECT_LE(surface_.cost_us[result.chosen], 1.02 * surface_.best_us());
}

TEST_F(TunerTest, TheLikeliestAreAllThatIsCompiled) {
  use(synthetic::transpose_surface());
  surface_.cost_us[surface_.default_index] = 0.9 * surface_.best_us();
  options_.search.strategy.kind = StrategyKind::likeliest;
  options_.compiles_while_measuring = false;
  const auto checked_by = [&] {
    checked_.clear();
    compiled_.clear();
    machine_.emplace(surface_, 1);
    const TuningResult result = tune_it();
    EXPECT_TRUE(result.ended);
    EXPECT_FALSE(result.complete) << "a longer search would look at more";
    EXPECT_EQ(result.chosen, surface_.default_index);
    EXPECT_THAT(result.verdict, HasSubstr("the likeliest 9 were tried"));
    EXPECT_EQ(compiled_.size(), 1 + kLikeliest);
    return checked_;
  };
  const std::vector<std::size_t> once = checked_by();
  EXPECT_EQ(once.front(), surface_.default_index);
  EXPECT_EQ(once.size(), 1 + kLikeliest);
  EXPECT_EQ(checked_by(), once);
}

TEST_F(TunerTest, TheLikeliestOfASmallSpaceAreAll) {
  use_costs({100, 120, 130, 140});
  options_.search.strategy.kind = StrategyKind::likeliest;
  const TuningResult result = tune_it();
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.verdict.find("were tried"), std::string::npos) << result.verdict;
}

TEST_F(TunerTest, ChecksEachOnceAndTheDefaultFirst) {
  use(synthetic::transpose_surface());
  tune_it();
  EXPECT_EQ(checked_.front(), surface_.default_index);
  EXPECT_EQ(std::set(checked_.begin(), checked_.end()).size(), checked_.size());
}

TEST_F(TunerTest, WithoutOverlapNothingIsCompiledWhileMeasuring) {
  use(synthetic::transpose_surface());
  options_.compile_threads = 2;
  options_.compiles_while_measuring = false;
  std::atomic<int> compiling = 0;
  callbacks_.compile = [&](std::size_t) {
    ++compiling;
    std::this_thread::sleep_for(100us);
    --compiling;
  };
  callbacks_.measure = [&](const MeasureRequest& request) {
    EXPECT_EQ(compiling, 0);
    if (surface_.fails[request.candidate]) throw CandidateFailure(Outcome::unlaunched, "too many registers");
    return machine_->measure(request.candidate, request.samples);
  };
  EXPECT_TRUE(tune_it().complete);
}

TEST_F(TunerTest, FailuresAreRecordedAndNeverChosen) {
  use_costs({100, 10, 20, 30, 40, 90});
  callbacks_.compile = [compile = callbacks_.compile](std::size_t candidate) {
    compile(candidate);
    if (candidate == 1)
      throw CompileError("sum", "A=1", "kernel.hpp:3: warning: w\nkernel.hpp:7: error: no such thing\nmore");
  };
  callbacks_.difference = [](std::size_t candidate) {
    return candidate == 2 ? std::string("element 17 is 3, and the default's is 4") : std::string();
  };
  callbacks_.measure = [&](const MeasureRequest& request) {
    if (request.candidate == 3) throw DeviceError("cuLaunchKernelEx", 701, "too many resources requested for launch");
    if (request.candidate == 4) throw CandidateFailure(Outcome::hung, "gave up");
    return machine_->measure(request.candidate, request.samples);
  };
  const TuningResult result = tune_it();
  EXPECT_EQ(result.chosen, 5U);
  EXPECT_EQ(result.candidates[1].outcome, Outcome::uncompiled);
  EXPECT_EQ(result.candidates[1].reason, "kernel.hpp:7: error: no such thing");
  EXPECT_EQ(result.candidates[2].outcome, Outcome::mismatched);
  EXPECT_EQ(result.candidates[2].reason, "element 17 is 3, and the default's is 4");
  EXPECT_EQ(result.candidates[3].outcome, Outcome::unlaunched);
  EXPECT_THAT(result.candidates[3].reason, HasSubstr("701"));
  EXPECT_EQ(result.candidates[4].outcome, Outcome::hung);
  EXPECT_EQ(result.candidates[4].reason, "gave up");
}

TEST_F(TunerTest, AFailureMayEndIt) {
  use_costs({100, 10, 20, 30, 40, 90});
  int calls_after = 0;
  bool failed = false;
  callbacks_.measure = [&](const MeasureRequest& request) {
    calls_after += failed;
    if (request.candidate == 3) {
      failed = true;
      throw CandidateFailure(Outcome::unlaunched, "illegal address", CandidateFailure::After::stop);
    }
    return machine_->measure(request.candidate, request.samples);
  };
  const TuningResult result = tune_it();
  EXPECT_EQ(calls_after, 0);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.candidates[3].outcome, Outcome::unlaunched);
  EXPECT_NE(result.chosen, 3U);
}

TEST_F(TunerTest, OtherExceptionsPassThrough) {
  use_costs({100, 10});
  callbacks_.measure = [](const MeasureRequest&) -> std::vector<double> { throw InternalError("a bug"); };
  EXPECT_THROW(tune_it(), InternalError);
  use_costs({100, 10});
  callbacks_.compile = [](std::size_t) { throw SystemError("no space left"); };
  EXPECT_THROW(tune_it(), SystemError);
}

TEST_F(TunerTest, KeepsToItsBudget) {
  use(synthetic::matmul_surface());
  options_.search.strategy.kind = StrategyKind::exhaustive;
  options_.budget_s = 0.5;  // all of them take several seconds
  const TuningResult result = tune_it();
  EXPECT_FALSE(result.complete);
  EXPECT_LT(machine_->now_us() * 1e-6, 0.5 + 0.1);
  EXPECT_GT(machine_->now_us() * 1e-6, 0.5 * 0.75);
  EXPECT_LT(surface_.cost_us[result.chosen], 0.8 * surface_.cost_us[surface_.default_index]);
  EXPECT_THAT(result.verdict, HasSubstr("stopped early"));
}

TEST_F(TunerTest, ABudgetMayEndAtAnyMoment) {
  for (const bool overlaps : {false, true})
    for (double budget_s = 1e-4; budget_s < 1e-2; budget_s *= 1.1) {
      compiled_.clear();
      use_costs({100, 10, 20});
      options_.compiles_while_measuring = overlaps;
      options_.budget_s = budget_s;
      EXPECT_EQ(tune_it().candidates.size(), 3U) << budget_s;
    }
}

/// What is compared first may have to be compiled, beside all the others.
TEST_F(TunerTest, ASlowFirstComparisonLeavesTheDefaultAndAnotherMeasured) {
  for (const bool overlaps : {false, true}) {
    compiled_.clear();
    use_costs({100, 10, 20});
    options_.compiles_while_measuring = overlaps;
    options_.budget_s = 4;
    double late_s = 0;
    callbacks_.now_s = [&] { return machine_->now_us() * 1e-6 + late_s; };
    callbacks_.difference = [&](std::size_t candidate) {
      if (candidate == surface_.default_index) late_s = 10;
      return std::string();
    };
    const TuningResult result = tune_it();
    EXPECT_GT(result.candidates[0].samples, 0);
    EXPECT_EQ(result.chosen, 1U);
  }
}

TEST_F(TunerTest, AStopKeepsWhatIsDone) {
  use(synthetic::transpose_surface());
  options_.search.strategy.kind = StrategyKind::exhaustive;
  std::stop_source stop;
  callbacks_.progress = [&](const TuningProgress& progress) {
    if (progress.tried > 150) stop.request_stop();
  };
  const TuningResult stopped = tune_it(stop.get_token());
  EXPECT_FALSE(stopped.complete);
  const auto known = std::count_if(stopped.candidates.begin(), stopped.candidates.end(),
                                   [](const auto& evidence) { return evidence.outcome != Outcome::untried; });
  EXPECT_GT(known, 150);

  options_.search.earlier = stopped.candidates;
  callbacks_.progress = nullptr;
  const std::map<std::size_t, int> compiled_before = std::exchange(compiled_, {});
  const TuningResult resumed = tune_it();
  EXPECT_TRUE(resumed.complete);
  EXPECT_LT(compiled_.size(), surface_.candidates.size() - 50);
  EXPECT_LE(surface_.cost_us[resumed.chosen], 1.02 * surface_.best_us());
}

TEST_F(TunerTest, AStopDuringACompileDoesNotWaitForIt) {
  use_costs({100, 10});
  std::stop_source stop;
  std::atomic<bool> is_stopped = false;
  callbacks_.compile = [&, compile = callbacks_.compile](std::size_t candidate) {
    compile(candidate);
    if (candidate != 1) return;
    stop.request_stop();
    while (!is_stopped) std::this_thread::sleep_for(1ms);
  };
  // The tuner's thread is free as soon as it is asked to stop; its destructor then waits for the compiler.
  std::jthread release([&] {
    while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(5ms);
    is_stopped = true;
  });
  const TuningResult result = tune_it(stop.get_token());
  EXPECT_EQ(result.chosen, 0U);
  EXPECT_EQ(result.candidates[1].outcome, Outcome::untried);
}

TEST_F(TunerTest, WhatComesFirstIsCompiledWithTheDefault) {
  use_costs({100, 10, 20});
  options_.compile_threads = 3;
  std::atomic<int> begun = 0;
  callbacks_.compile = [&](std::size_t) {
    ++begun;
    while (begun < 3) std::this_thread::sleep_for(1ms);
  };
  callbacks_.measure = [&](const MeasureRequest& request) {
    return machine_->measure(request.candidate, request.samples);
  };
  EXPECT_TRUE(tune_it().complete);
}

TEST_F(TunerTest, WhatIsCompiledDoesNotWaitForWhatIsNot) {
  use_costs({100, 10, 20, 30, 40});
  options_.compile_threads = 2;
  std::atomic<bool> is_last = false;
  callbacks_.compile = [&, compile = callbacks_.compile](std::size_t candidate) {
    compile(candidate);
    while (candidate == 1 && !is_last) std::this_thread::sleep_for(1ms);
  };
  callbacks_.run = [this, &is_last, run = callbacks_.run](std::size_t candidate) {
    run(candidate);
    if (checked_.size() == 4) is_last = true;
  };
  const TuningResult result = tune_it();
  EXPECT_EQ(checked_.size(), 5U);
  EXPECT_EQ(checked_.back(), 1U);
  EXPECT_EQ(result.chosen, 1U);
}

TEST_F(TunerTest, TheBudgetEndsAWaitForACompiler) {
  use_costs({100, 10, 20});
  callbacks_.now_s = nullptr;
  options_.compile_threads = 3;
  options_.budget_s = 0.4;
  std::atomic<bool> is_over = false;
  callbacks_.compile = [&, compile = callbacks_.compile](std::size_t candidate) {
    compile(candidate);
    while (candidate == 1 && !is_over) std::this_thread::sleep_for(1ms);
  };
  // Compilers can be told to stop, this one knows no such thing: it ends a while after the budget.
  std::jthread release([&] {
    std::this_thread::sleep_for(3s);
    is_over = true;
  });
  std::vector<double> elapsed_s;
  callbacks_.progress = [&](const TuningProgress& progress) { elapsed_s.push_back(progress.elapsed_s); };
  const TuningResult result = tune_it();
  EXPECT_EQ(result.chosen, 2U);
  EXPECT_EQ(result.candidates[1].outcome, Outcome::untried);
  EXPECT_FALSE(result.complete);
  ASSERT_FALSE(elapsed_s.empty());
  EXPECT_LT(elapsed_s.back(), 2);
}

TEST_F(TunerTest, ABudgetDoesNotEndBeforeOneOtherIsCompiled) {
  use_costs({100, 10, 20});
  callbacks_.now_s = nullptr;
  options_.compile_threads = 3;
  options_.budget_s = 1;
  callbacks_.compile = [&, compile = callbacks_.compile](std::size_t candidate) {
    compile(candidate);
    std::this_thread::sleep_for(candidate == 0 ? 900ms : 1500ms);
  };
  EXPECT_NE(tune_it().chosen, 0U);
}

TEST_F(TunerTest, AHangingCandidateIsReportedAndLeftOut) {
  use_costs({100, 10, 90});
  let_hang([](const MeasureRequest& request) { return request.candidate == 1; });
  const TuningResult result = tune_it();
  ASSERT_TRUE(reported_);
  EXPECT_EQ(reported_->candidates[1].outcome, Outcome::hung);
  EXPECT_EQ(result.candidates[1].outcome, Outcome::hung);
  EXPECT_THAT(result.candidates[1].reason, HasSubstr("are allowed"));
  EXPECT_EQ(result.chosen, 2U);
}

TEST_F(TunerTest, ASlowComparisonIsNoHang) {
  use_costs({100, 10, 90});
  callbacks_.now_s = nullptr;
  options_.least_time_limit_s = 0.05;
  callbacks_.hung = [](const TuningResult&) { ADD_FAILURE() << "nothing of a candidate's was slow"; };
  std::vector<std::size_t> compared;
  callbacks_.difference = [&](std::size_t candidate) {
    compared.push_back(candidate);
    std::this_thread::sleep_for(100ms);
    return std::string();
  };
  const TuningResult result = tune_it();
  EXPECT_EQ(result.chosen, 1U);
  EXPECT_THAT(compared, testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(compared.front(), 0U);
}

TEST_F(TunerTest, ARunThatHangsIsReported) {
  use_costs({100, 10, 90});
  callbacks_.now_s = nullptr;
  options_.least_time_limit_s = 0.05;
  std::atomic<int> reports = 0;
  callbacks_.hung = [&](const TuningResult& result) {
    EXPECT_EQ(result.candidates[1].outcome, Outcome::hung);
    ++reports;
  };
  callbacks_.run = [&](std::size_t candidate) {
    while (candidate == 1 && reports == 0) std::this_thread::sleep_for(1ms);
  };
  callbacks_.difference = [](std::size_t candidate) {
    EXPECT_NE(candidate, 1U);
    return std::string();
  };
  const TuningResult result = tune_it();
  EXPECT_EQ(reports, 1);
  EXPECT_EQ(result.candidates[1].outcome, Outcome::hung);
  EXPECT_EQ(result.chosen, 2U);
}

TEST_F(TunerTest, AnotherIsChosenWhileTheChosenOneHangs) {
  struct Case {
    std::size_t hangs;   ///< once it has been measured for a while, and so is what would be chosen
    std::size_t chosen;  ///< meanwhile
  };
  for (const Case& c : {Case{1, 2}, Case{0, 0}}) {
    use_costs({100, 50, 50.5, 90});
    let_hang([&](const MeasureRequest& request) {
      return request.candidate == c.hangs && request.round && *request.round >= 8;
    });
    const TuningResult result = tune_it();
    ASSERT_TRUE(reported_) << c.hangs;
    EXPECT_EQ(reported_->candidates[c.hangs].outcome, Outcome::hung);
    EXPECT_GT(reported_->candidates[c.hangs].samples, 0);
    EXPECT_EQ(reported_->candidates[c.hangs].rank, 0);
    EXPECT_EQ(reported_->chosen, c.chosen);
    EXPECT_LE(reported_->chosen_relative.high, c.chosen == 0 ? 1 : 0.6);
    EXPECT_FALSE(reported_->complete);
    EXPECT_EQ(result.candidates[c.hangs].outcome, Outcome::hung);
    EXPECT_EQ(result.chosen, c.chosen);
  }
}

TEST_F(TunerTest, AReportOfAHangThatFailsEndsTheTuning) {
  use_costs({100, 10, 90});
  let_hang([](const MeasureRequest& request) { return request.candidate == 1; });
  callbacks_.hung = [this](const TuningResult&) {
    is_reported_ = true;
    throw InternalError("a bug");
  };
  EXPECT_THROW(tune_it(), InternalError);
}

TEST_F(TunerTest, ReportsProgress) {
  use(synthetic::transpose_surface());
  options_.search.strategy.kind = StrategyKind::exhaustive;
  std::vector<TuningProgress> reports;
  callbacks_.progress = [&](const TuningProgress& progress) { reports.push_back(progress); };
  options_.budget_s = 10;
  tune_it();
  ASSERT_GT(reports.size(), 2U);
  for (std::size_t i = 1; i < reports.size(); ++i) {
    EXPECT_GE(reports[i].tried, reports[i - 1].tried);
    EXPECT_GE(reports[i].elapsed_s - reports[i - 1].elapsed_s, 0.09);
  }
  EXPECT_EQ(reports.back().candidates, surface_.candidates.size());
  EXPECT_GT(reports.back().failed, 10U);
  EXPECT_EQ(reports.back().budget_s, 10);
  EXPECT_LT(reports.back().best_us, reports.back().default_us);
  EXPECT_FALSE(reports.back().best.empty());
}

TEST_F(TunerTest, RefusesOptionsOutOfRange) {
  use_costs({100, 10});
  const auto refused = [&](const std::function<void()>& change) {
    options_ = {};
    change();
    return usage_message([&] { tune_it(); });
  };
  EXPECT_THAT(refused([&] { options_.budget_s = 0; }), HasSubstr("budget_s=0; expected"));
  EXPECT_THAT(refused([&] { options_.budget_s = std::nan(""); }), HasSubstr("budget_s=nan"));
  EXPECT_THAT(refused([&] { options_.playoff_share = 1; }), HasSubstr("playoff_share=1"));
  EXPECT_THAT(refused([&] { options_.compile_threads = 0; }), HasSubstr("compile_threads=0"));
  EXPECT_THAT(refused([&] { options_.least_time_limit_s = 0; }), HasSubstr("least_time_limit_s=0"));
  EXPECT_THAT(refused([&] { callbacks_.measure = nullptr; }), HasSubstr("'measure'"));
}

}  // namespace
}  // namespace kiln::test
