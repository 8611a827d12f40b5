// Tuning of real calls: what is chosen, what is recorded, and what later calls make of it.

#include "registry/tuning/tuning.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "autotune/database.hpp"
#include "compiler/artifact_cache.hpp"
#include "compiler/compilers.hpp"
#include "core/content_hash.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/warm_up.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/tuning/tuning_report.hpp"
#include "runtime/graph.hpp"
#include "runtime/memory.hpp"
#include "tests/registry/scaled_op.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

TEST_F(TuningTest, ChoosesTheFastestThatIsRightAndLaterCallsUseIt) {
  for (const Device device : devices_) {
    const Tensor x = ramp(200'000, device);
    EXPECT_EQ(report_of(x).config_source, "default");
    const TuneReport report = tune_op("scaled", std::vector<TensorView>{x}, {}, quick());
    // On a GPU that other processes use REPEAT 1 and 2 are not far apart; the default's 4 is.
    EXPECT_EQ(report.entry.config.at("KIND"), 0) << report.result.verdict;
    EXPECT_LE(report.entry.config.at("REPEAT"), 2) << report.result.verdict;
    int mismatched = 0, uncompiled = 0;
    for (const CandidateEvidence& evidence : report.result.candidates) {
      mismatched += evidence.outcome == Outcome::mismatched;
      uncompiled += evidence.outcome == Outcome::uncompiled;
      if (evidence.outcome == Outcome::mismatched) {
        EXPECT_THAT(evidence.reason, HasSubstr("200000 of 200000"));
      } else if (evidence.outcome == Outcome::uncompiled) {
        EXPECT_THAT(evidence.reason, HasSubstr("does not compile"));
      }
    }
    EXPECT_EQ(mismatched, 5);
    EXPECT_EQ(uncompiled, 5);
    EXPECT_LT(report.entry.relative.high, 1);

    EXPECT_EQ(report_of(x).config_source, "tuned");
    EXPECT_EQ(report_of(x).config, report.entry.config);
    EXPECT_EQ(report_of(x, TuningPolicy::off).config_source, "default");
    EXPECT_EQ(report_of(ramp(100'000, device)).config_source, "default");
    EXPECT_EQ(report_of(ramp(100'000, device), TuningPolicy::nearest).config_source, "tuned for 200000");
    const Config given{{"REPEAT", 2}};
    EXPECT_EQ(resolve("scaled", {x.view()}, {}, {.config = &given}).report().config_source, "given");
    EXPECT_EQ(read_f32(dispatch_gpu_op("scaled", {x})),
              read_f32(dispatch_gpu_op("scaled", {x}, {}, {.config = &given})));
  }
}

TEST_F(TuningTest, TheLikeliestConfigsOfARealOpAreMeasured) {
  if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  TuneOptions options = quick();  // what a budget of 5 s does where compiling is quick
  options.strategy = StrategyKind::likeliest;
  options.record = false;
  const Tensor x = empty({512, 777}, DType::f32, Device::cpu());
  std::fill_n(static_cast<float*>(x.data()), 512 * 777, 0.5F);
  const TuneReport report = tune_op("softmax", std::vector<TensorView>{x}, {}, options);
  const auto measured = std::ranges::count_if(report.result.candidates,
                                              [](const CandidateEvidence& evidence) { return evidence.samples > 0; });
  EXPECT_GE(measured, 8);
  EXPECT_TRUE(report.result.ended);
  EXPECT_FALSE(report.result.complete);
  EXPECT_THAT(tuning_text(report), Says("a larger budget looks at more"));
}

TEST_F(TuningTest, InputsThatTheOpChangesStayAsTheyWere) {
  for (const Device device : devices_) {
    const Tensor total = make_f32(std::vector<float>(50'000, 7), device), x = ramp(50'000, device),
                 out = make_f32(std::vector<float>(50'000, -1), device);
    const TuneReport report = tune_op("scaled_into", std::vector<TensorView>{total, x, out}, {}, quick());
    EXPECT_EQ(report.entry.config.at("KIND"), 0) << report.result.verdict;
    EXPECT_LE(report.entry.config.at("REPEAT"), 2) << report.result.verdict;
    EXPECT_EQ(read_f32(total), std::vector<float>(50'000, 7));
    EXPECT_EQ(read_f32(out), std::vector<float>(50'000, -1));
  }
}

// What KIND 1 writes to the address is wrong.
constexpr const char* kThrough = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <int KIND, int BLOCK>
KILN_KERNEL void through(const tl::int64_t* table, const float* x, tl::int64_t n) {
  float* const to = reinterpret_cast<float*>(table[0]);
  const auto offsets = tl::program_id(0) * BLOCK + tl::arange<BLOCK>();
  const auto mask = offsets < n;
  tl::store(to + offsets, tl::load(x + offsets, mask) + tl::load(to + offsets, mask) + (KIND == 1 ? 1.0f : 0.0f), mask);
}
)";

/// Adds x to what lies at the address.
OpSpec through() {
  OpSpec spec = scaled("scaled_through", false);
  spec.inputs = {{.name = "table", .doc = "", .mutated = true}, {"x", ""}};
  spec.inputs[0].dtypes = {DType::i64};
  spec.inputs[0].points_to = [](const OpCall& call) {
    return dense_view(nullptr, DType::f32, call.inputs[1].shape, call.inputs[1].device);
  };
  spec.outputs.clear();
  spec.infer = [](std::span<const TensorView>, const Attributes&) { return std::vector<TensorMeta>{}; };
  Variant& variant = spec.variants.front();
  variant.source = {"through.hpp", kThrough, {}};
  variant.kernel = "through";
  variant.space = [](const Target&) { return ConfigSpace{{{"KIND", {0, 1}}, {"BLOCK", {64, 128}}}, {}}; };
  variant.default_config = [](const OpCall&, const Target&) { return Config{{"KIND", 0}, {"BLOCK", 128}}; };
  variant.plan = [](const OpCall& call, const Config& config, const Target&) {
    const std::int64_t n = call.inputs[1].numel();
    LaunchPlan plan;
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.template_arguments = {config.at("KIND"), config.at("BLOCK")};
    launch.geometry.grid[0] = (n + config.at("BLOCK") - 1) / config.at("BLOCK");
    for (const int tensor : {0, 1}) launch.arguments.add_tensor(tensor);
    launch.arguments.add_value(n);
    return plan;
  };
  return spec;
}

TEST_F(TuningTest, WhatLiesAtAddressesStaysAsItWasAndIsCompared) {
  Registry::process().register_op(through());
  for (const Device device : devices_) {
    const Tensor x = ramp(20'000, device), there = make_f32(std::vector<float>(20'000, 7), device);
    const Tensor table = make_integers(DType::i64, {1}, {reinterpret_cast<std::intptr_t>(there.data())}, device);
    const TuneReport report = tune_op("scaled_through", std::vector<TensorView>{table, x}, {}, quick());
    EXPECT_EQ(read_f32(there), std::vector<float>(20'000, 7));
    for (const CandidateEvidence& evidence : report.result.candidates)
      EXPECT_EQ(evidence.outcome == Outcome::mismatched, evidence.config.at("KIND") == 1) << to_string(evidence.config);

    const Tensor key = make_patterns({2, 3, 1, 8}, 3, device);
    const Tensor cache = make_patterns({4, 4, 1, 8}, 50, device);
    const auto address = reinterpret_cast<std::intptr_t>(cache.data());
    const Tensor caches = make_integers(DType::i64, {2}, {address, address}, device);
    const Tensor slots = make_integers(DType::i64, {3}, {0, 5, -1}, device);
    const std::vector<std::int64_t> before = read_bits(cache);
    TuneOptions options = quick();
    options.record = false;
    const TuneReport append = tune_op("kv_append_layers", std::vector<TensorView>{key, key, caches, caches, slots},
                                      {{"num_blocks", std::int64_t{4}}, {"page", std::int64_t{4}}}, options);
    EXPECT_EQ(read_bits(cache), before);
    EXPECT_EQ(append.skipped.value().skipped, 1);
    EXPECT_THAT(tuning_text(append), HasSubstr("33.3% of the work: 1 of 3 entries of 'slot_mapping'"));
    EXPECT_THAT(tuning_json(append), HasSubstr("\"skipped_share\":0.33"));
  }
}

TEST_F(TuningTest, CallbacksMayCallOpsButNotTune) {
  for (const Device device : devices_) {
    const Tensor x = ramp(310'000, device);
    const Tensor other = ramp(320'000, device);
    const std::vector<float> expected = read_f32(dispatch_gpu_op("scaled", {other}, {}, {.tuning = TuningPolicy::off}));
    set_tuning_policy(TuningPolicy::first_use);
    std::string message;
    int calls = 0;
    TuneOptions options = quick();
    options.progress = [&](const TuningProgress&) {
      if (calls++ > 0) return;
      EXPECT_EQ(read_f32(dispatch_gpu_op("scaled", {other})), expected);
      message = usage_message([&] { tune_op("scaled", std::vector<TensorView>{other}, {}, quick()); });
    };
    tune_op("scaled", std::vector<TensorView>{x}, {}, options);
    EXPECT_GT(calls, 0);
    EXPECT_THAT(message, HasSubstr("cannot be tuned from within a tuning"));
    EXPECT_EQ(report_of(other).config_source, "default");
    EXPECT_EQ(read_f32(dispatch_gpu_op("scaled", {other})), expected);  // after it
    EXPECT_EQ(report_of(other).config_source, "tuned");
  }
}

TEST_F(TuningTest, NothingIsCompiledOrMeasuredForWhatIsTuned) {
  const Tensor x = ramp(150'000, devices_[0]);
  tune_op("scaled", std::vector<TensorView>{x}, {}, quick());
  detail::forget_tuned_plans();
  const ArtifactCache::Counters before = ArtifactCache::process().counters();
  set_tuning_policy(TuningPolicy::first_use);
  dispatch_gpu_op("scaled", {x});
  const ArtifactCache::Counters after = ArtifactCache::process().counters();
  EXPECT_EQ(after.builds, before.builds);
}

TEST_F(TuningTest, ACandidateThatDoesNotReturnIsReportedMeanwhileAndNotTriedAgain) {
  OpSpec spec = scaled("scaled_hanging", false);
  spec.variants[0].space = [](const Target&) { return ConfigSpace{{{"KIND", {0, 3}}, {"REPEAT", {2, 1}}}, {}}; };
  spec.variants[0].default_config = [](const OpCall&, const Target&) { return Config{{"KIND", 0}, {"REPEAT", 2}}; };
  Registry::process().register_op(spec);
  const Tensor x = ramp(1000, devices_[0]);
  TuneOptions options = quick();
  options.budget_s = 20;
  options.least_time_limit_s = 1.2;  // a sound candidate takes 0.3 s, with its warming up; one that hangs 2.5 s
  int calls = 0;
  options.hung = [&](const TuningEntry& entry) {
    ++calls;
    const auto recorded = TuningDatabase::process().find(entry.key);
    ASSERT_NE(recorded, nullptr);
    const auto is_hung = [](const CandidateEvidence& evidence) { return evidence.outcome == Outcome::hung; };
    EXPECT_GE(std::count_if(recorded->tried.begin(), recorded->tried.end(), is_hung), 1);
  };
  const TuneReport first = tune_op("scaled_hanging", std::vector<TensorView>{x}, {}, options);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(first.entry.config.at("KIND"), 0);
  const auto hung = std::count_if(first.entry.tried.begin(), first.entry.tried.end(), [](const auto& evidence) {
    return evidence.config.at("KIND") == 3 && evidence.outcome == Outcome::hung;
  });
  EXPECT_EQ(hung, 2);

  // As it would be found by the process that takes over.
  TuningEntry partial = first.entry;
  partial.complete = false;
  std::erase_if(partial.tried, [](const CandidateEvidence& evidence) {
    return evidence.config == Config{{"KIND", 3}, {"REPEAT", 1}};
  });
  TuningDatabase::process().remove_if([](const TuningEntry& entry) { return entry.key.op == "scaled_hanging"; });
  TuningDatabase::process().record({partial});
  calls = 0;
  tune_op("scaled_hanging", std::vector<TensorView>{x}, {}, options);
  EXPECT_EQ(calls, 1);
}

TEST_F(TuningTest, AStoppedTuningKeepsWhatItFound) {
  const Tensor x = ramp(4'000'000, devices_[0]);  // progress is told every 100 ms: enough work for several times
  std::stop_source stop;
  TuneOptions options = quick();
  options.stop = stop.get_token();
  options.progress = [&](const TuningProgress& progress) {
    if (progress.tried >= 3) stop.request_stop();
  };
  const TuneReport report = tune_op("scaled", std::vector<TensorView>{x}, {}, options);
  EXPECT_FALSE(report.result.complete);
  EXPECT_LT(report.entry.tried.size(), 15u);
  EXPECT_EQ(report_of(x).config_source, "tuned");
}

TEST_F(TuningTest, ATunedConfigOfOtherSourcesIsNotUsed) {
  const Tensor x = ramp(60'000, devices_[0]);
  TuneReport report = tune_op("scaled", std::vector<TensorView>{x}, {}, quick());
  TuningEntry other = report.entry;
  other.key.kernel_hash[0] = other.key.kernel_hash[0] == '0' ? '1' : '0';
  TuningDatabase::process().remove_if([](const TuningEntry& entry) { return entry.key.op == "scaled"; });
  TuningDatabase::process().record({other});
  detail::forget_tuned_plans();
  EXPECT_EQ(report_of(x).config_source, "default");
  EXPECT_EQ(report_of(x, TuningPolicy::nearest).config_source, "default");
}

/// As keys had it before what an input selects was drawn from its range: of the kernel's source alone.
std::string hash_of_sources(const Variant& variant) {
  ContentHasher hasher;
  for (const KernelSource& file : transitive_sources(variant.source)) hasher.field(file.path).field(file.text);
  return hasher.field(variant.kernel).digest().hex();
}

TEST_F(TuningTest, WhatWasMeasuredWithOtherEntriesIsNotUsed) {
  const Device device = devices_[0];
  const Tensor rows = empty({500, 64}, DType::f32, device);
  const auto source_of = [&](const std::string& op, const std::vector<TensorView>& inputs, const Attributes& attributes,
                             bool as_before) {
    const OpSpec& spec = Registry::process().get(op);
    TuneOptions options = quick();
    options.budget_s = 0.5;
    options.record = false;
    TuningEntry entry = tune_op(op, inputs, attributes, options).entry;
    const auto variant = std::ranges::find(spec.variants, entry.key.variant, &Variant::name);
    if (as_before) entry.key.kernel_hash = hash_of_sources(*variant);
    TuningDatabase::process().record({entry}, EntrySet::Conflict::offered_wins);
    detail::forget_tuned_plans();
    const std::string source = resolve(op, inputs, attributes).report().config_source;
    TuningDatabase::process().remove_if([&](const TuningEntry& other) { return other.key.op == op; });
    detail::forget_tuned_plans();
    return source;
  };
  const Tensor index = make_integers(DType::i64, {3}, {1, 2, 499}, device);
  const std::vector<TensorView> selected{rows, index};
  EXPECT_EQ(source_of("index_select", selected, {{"dim", std::int64_t{0}}}, true), "default");
  EXPECT_EQ(source_of("index_select", selected, {{"dim", std::int64_t{0}}}, false), "tuned");
  EXPECT_EQ(source_of("transpose", {rows}, {}, true), "tuned") << "numbers were drawn as they are today";
}

TEST_F(TuningTest, ATunedConfigThatFailsGivesWayToTheDefault) {
  const Tensor x = ramp(70'000, devices_[0]);
  TuneReport report = tune_op("scaled", std::vector<TensorView>{x}, {}, quick());
  TuningEntry broken = report.entry;
  broken.config = Config{{"KIND", 2}, {"REPEAT", 1}};
  for (CandidateEvidence& evidence : broken.tried)
    if (evidence.config == report.entry.config) evidence.config = broken.config;
  TuningDatabase::process().record({broken}, EntrySet::Conflict::offered_wins);
  detail::forget_tuned_plans();
  std::string line;
  set_tuning_log([&](const std::string& text) { line = text; });
  EXPECT_EQ(report_of(x).config_source, "default");
  EXPECT_THAT(line, HasSubstr("the tuned config is not used"));
}

TEST_F(TuningTest, AWarmUpLooksWhereItsCallWill) {
  const Tensor x = ramp(80'000, devices_[0]);
  TuneReport report = tune_op("scaled", std::vector<TensorView>{x}, {}, quick());
  TuningEntry broken = report.entry;  // whoever looks complains
  broken.config = Config{{"KIND", 2}, {"REPEAT", 1}};
  for (CandidateEvidence& evidence : broken.tried)
    if (evidence.config == report.entry.config) evidence.config = broken.config;
  TuningDatabase::process().record({broken}, EntrySet::Conflict::offered_wins);
  detail::forget_tuned_plans();
  set_tuning_policy(TuningPolicy::off);
  std::string line;
  set_tuning_log([&](const std::string& text) { line = text; });
  std::vector<WarmUpCall> calls = {{.op = "scaled", .inputs = {x.view()}}};
  warm_up(calls);
  EXPECT_EQ(line, "") << "the process's policy is off";
  calls[0].tuning = TuningPolicy::use;
  warm_up(calls);
  EXPECT_THAT(line, HasSubstr("the tuned config is not used"));
}

TEST_F(TuningTest, SeedsShareWhatWasTuned) {
  const OpSpec& spec = Registry::process().get("dropout");
  const TensorView x = dense_view(nullptr, DType::f32, {64});
  const auto key = [&](double p, std::int64_t seed, std::int64_t offset) {
    const Attributes attributes{{"offset", offset}, {"p", p}, {"seed", seed}};
    return tuning_key(validated_call(spec, std::span(&x, 1), attributes), spec.variants.front(), Target{});
  };
  EXPECT_EQ(key(0.5, 1, 0), key(0.5, 2, 4096));
  EXPECT_FALSE(key(0.5, 1, 0) == key(0.25, 1, 0));
}

TEST_F(TuningTest, TokensShareWhatWasTunedByPowersOfTwo) {
  const OpSpec& spec = Registry::process().get("kv_append");
  const auto key = [&](std::int64_t tokens, std::int64_t blocks) {
    const TensorView token = dense_view(nullptr, DType::f32, {tokens, 2, 8});
    const TensorView cache = dense_view(nullptr, DType::f32, {blocks, 16, 2, 8});
    const TensorView inputs[] = {token, token, cache, cache, dense_view(nullptr, DType::i64, {tokens})};
    return tuning_key(validated_call(spec, inputs), spec.variants.front(), Target{});
  };
  EXPECT_EQ(key(33, 100), key(64, 2000));
  EXPECT_FALSE(key(64, 100) == key(65, 100));
  EXPECT_FALSE(key(4, 100) == key(5, 100)) << "decode batches are exact";
}

TEST_F(TuningTest, Errors) {
  const Tensor x = ramp(1000, devices_[0]);
  TuneOptions no_time;
  no_time.budget_s = 0;
  EXPECT_THROW(tune_op("scaled", std::vector<TensorView>{x}, {}, no_time), UsageError);
  EXPECT_THROW(tune_op("scalde", std::vector<TensorView>{x}), UsageError);
  EXPECT_THROW(tune_op("scaled", {}), UsageError);
  EXPECT_THROW(parse_tuning_policy("always"), UsageError);
  for (const Device device : devices_) {
    if (!device.is_cuda()) continue;
    const OwnedStream stream(device);
    TuneOptions options = quick();
    options.stream = stream.get();
    const Tensor on_gpu = ramp(1000, device);
    EXPECT_THROW(capture(stream, [&] { tune_op("scaled", std::vector<TensorView>{on_gpu}, {}, options); }), UsageError);
  }
}

}  // namespace
}  // namespace kiln::test
