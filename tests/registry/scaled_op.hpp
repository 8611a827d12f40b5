#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autotune/database.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/tuning/tuning.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

// An op that is tuned in no time, for tests of tuning.

namespace kiln::test {

// KIND 0 does the work REPEAT times over; 1 computes something else, 2 does not compile, 3 takes seconds.
inline constexpr const char* kScaledSource = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <int KIND, int REPEAT>
KILN_KERNEL void scaled(float* total, const float* x, float* out, tl::int64_t n) {
  static_assert(KIND != 2, "this kind does not compile");
  for (int turn = 0; turn < REPEAT; ++turn) {
    const auto offsets = tl::program_id(0) * 128 + tl::arange<128>();
    const auto mask = offsets < n;
    auto values = tl::load(x + offsets, mask);
    for (int step = 0; step < 50; ++step) values = values * 1.000001f + 0.5f;
    tl::store(out + offsets, values + (KIND == 1 ? 1.0f : 0.0f), mask);
  }
  if (KIND == 3 && tl::program_id(0) == 0) {
    float value = tl::load(x);
    for (long long step = 0; step < 500000000; ++step) value = value * 0.999f + 0.5f;
    tl::store(out, value > 1e30f ? value : tl::load(out));
  }
  if (total != nullptr) {
    const auto offsets = tl::program_id(0) * 128 + tl::arange<128>();
    tl::store(total + offsets, tl::load(total + offsets, offsets < n) + 1.0f, offsets < n);
  }
}
)";

/// `out` is an output, or where `changes` an input that is changed beside the input total, which counts calls.
inline OpSpec scaled(const std::string& name, bool changes) {
  OpSpec spec;
  spec.name = name;
  spec.doc = "50 multiply-adds";
  if (changes)
    spec.inputs = {{.name = "total", .doc = "", .mutated = true},
                   {.name = "x", .doc = ""},
                   {.name = "out", .doc = "", .mutated = true}};
  else
    spec.inputs = {{"x", ""}};
  if (!changes) spec.outputs = {{"out", ""}};
  spec.dtypes = {DType::f32};
  spec.tolerance = [](DType) { return Tolerance{1e-5, 1e-5}; };
  spec.infer = [changes](std::span<const TensorView> inputs, const Attributes&) {
    return changes ? std::vector<TensorMeta>{} : std::vector<TensorMeta>{{DType::f32, inputs[0].shape}};
  };
  spec.cost = [](const OpCall& call) {
    return Cost{100.0 * static_cast<double>(call.inputs[0].numel()), 8.0 * static_cast<double>(call.inputs[0].numel())};
  };
  Variant variant;
  variant.name = "only";
  variant.source = {name + ".hpp", kScaledSource, {}};
  variant.kernel = "scaled";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = [](const Target&) { return ConfigSpace{{{"KIND", {0, 1, 2}}, {"REPEAT", {8, 4, 2, 1, 16}}}, {}}; };
  variant.default_config = [](const OpCall&, const Target&) { return Config{{"KIND", 0}, {"REPEAT", 4}}; };
  variant.plan = [changes](const OpCall& call, const Config& config, const Target&) {
    const std::int64_t n = call.inputs[0].numel();
    LaunchPlan plan;
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.template_arguments = {config.at("KIND"), config.at("REPEAT")};
    launch.geometry.grid[0] = (n + 127) / 128;
    if (changes)
      for (const int tensor : {0, 1, 2}) launch.arguments.add_tensor(tensor);
    else {
      launch.arguments.add_value(static_cast<void*>(nullptr));
      launch.arguments.add_tensor(1);
      launch.arguments.add_tensor(0);
    }
    launch.arguments.add_value(n);
    return plan;
  };
  spec.variants.push_back(std::move(variant));
  return spec;
}

inline Tensor ramp(int elements, Device device) {
  std::vector<float> values;
  for (int i = 0; i < elements; ++i) values.push_back(static_cast<float>(i % 97));
  return make_f32(values, device);
}

/// Ops whose names begin with "scaled" are tuned, and forgotten after each test.
class TuningTest : public DevicesTest {
 protected:
  static void SetUpTestSuite() {
    static const bool is_first = [] {  // of several suites in one process
      Registry::process().register_op(scaled("scaled", false));
      Registry::process().register_op(scaled("scaled_into", true));
      return true;
    }();
    static_cast<void>(is_first);
  }
  void TearDown() override {
    set_tuning_policy(TuningPolicy::use);
    set_tuning_log({});
    TuningDatabase::process().remove_if([](const TuningEntry& entry) { return entry.key.op.starts_with("scaled"); });
    detail::forget_tuned_plans();
  }
  static TuneOptions quick() {
    TuneOptions options;
    options.budget_s = 60;  // it ends long before, but for machines where many tests compile at once
    return options;
  }
  static PlanReport report_of(const Tensor& x, TuningPolicy policy = TuningPolicy::use) {
    return resolve("scaled", {x.view()}, {}, {.tuning = policy}).report();
  }
};

}  // namespace kiln::test
