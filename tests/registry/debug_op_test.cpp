#include "registry/inspection/debug_op.hpp"
#include "registry/user_ops/user_op.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <random>

#include "core/errors.hpp"
#include "registry/inspection/random_call_inputs.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_kernel.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

using DebugOpTest = DevicesTest;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// total += x, which shows how often it ran.
constexpr const char* kAccumulate = R"(#include <kiln/tl.hpp>
template <int BLOCK_SIZE = 128>
KILN_KERNEL void accumulate(float* total, const float* x, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(total + offsets, tl::load(total + offsets, mask) + tl::load(x + offsets, mask), mask);
}
)";

OpSpec accumulate(const std::string& name, float error_of_reference) {
  UserKernel kernel;
  kernel.name = name;
  kernel.source = {"accumulate.hpp", kAccumulate, {}};
  kernel.grid = [](const OpCall& call, const Config&) {
    return std::array{(call.inputs[0].numel() + 127) / 128, std::int64_t{1}, std::int64_t{1}};
  };
  OpSpec spec = kernel_op(kernel);
  spec.reference = [=](const OpCall& call) {
    auto* const total = static_cast<float*>(call.inputs[0].data);
    for (std::int64_t i = 0; i < call.inputs[0].numel(); ++i)
      total[i] += static_cast<const float*>(call.inputs[1].data)[i] + error_of_reference;
  };
  spec.tolerance = [](DType) { return Tolerance{0, 0.25}; };
  return spec;
}

TEST_F(DebugOpTest, SaysWhatGoesInAndComesOut) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({2, 3}, {1, 2, NAN, -4, kInf, 6}, device);
    const Tensor flipped = view_of(x, {3, 2}, {1, 3});
    const DebugReport report = debug_op("neg", {flipped});
    EXPECT_EQ(report.device, device);
    ASSERT_EQ(report.inputs.size(), 1u);
    const DebuggedTensor& input = report.inputs[0];
    EXPECT_EQ(input.name, "x");
    EXPECT_EQ(input.view.shape, (Dims{3, 2}));
    EXPECT_EQ(input.view.strides, (Dims{1, 3}));
    EXPECT_FALSE(input.view.is_contiguous());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % static_cast<std::uintptr_t>(input.alignment_bytes), 0u);
    ASSERT_TRUE(input.before);
    EXPECT_FALSE(input.after);
    EXPECT_EQ(input.before->num_nan, 1);
    EXPECT_EQ(input.before->num_inf, 1);
    EXPECT_EQ(input.before->max, 6);
    ASSERT_EQ(report.outputs.size(), 1u);
    EXPECT_EQ(report.outputs[0].name, "out");
    ASSERT_TRUE(report.outputs[0].after);
    EXPECT_EQ(report.outputs[0].after->min, -6);
    EXPECT_EQ(report.outputs[0].after->num_nan, 1);
    EXPECT_DOUBLE_EQ(report.outputs[0].after->mean, -1.25);
    ASSERT_EQ(report.results.size(), 1u);
    EXPECT_EQ(read_f32(report.results[0])[1], 4);  // (0, 1) of the flipped view
    ASSERT_EQ(report.comparisons.size(), 1u);
    ASSERT_TRUE(report.comparisons[0].comparison);
    EXPECT_EQ(report.comparisons[0].comparison->num_elements, 6);
    EXPECT_TRUE(report.ok());
    ASSERT_TRUE(report.plan);
    EXPECT_FALSE(report.plan->kernels.empty());
    EXPECT_GT(report.first_us.value(), 0);
    EXPECT_GT(report.warm_us.value(), 0);
    EXPECT_GT(report.memory_after.value().used_bytes, 0);
    EXPECT_THAT(to_string(report),
                AllOf(HasSubstr("f32 (3, 2) on " + to_string(device) + ", strides (1, 3), not contiguous, at 0x"),
                      HasSubstr("min -4, max 6, mean 1.25, 1 NaN, 1 Inf"), HasSubstr("first call"),
                      HasSubstr("warm call"), HasSubstr("variant"), HasSubstr("6 elements, all of them equal"),
                      HasSubstr("memory"), Not(HasSubstr("FAILED"))));
  }
}

TEST_F(DebugOpTest, TellsAFirstCallFromALaterOne) {
  for (const Device device : devices_) {
    const Tensor x = make_f32(std::vector<float>(1237, 1.0F), device);
    EXPECT_FALSE(debug_op("exp", {x}).was_planned);
    const DebugReport again = debug_op("exp", {x});
    EXPECT_TRUE(again.was_planned);
    EXPECT_THAT(to_string(again), HasSubstr("as planned by an earlier call"));
  }
}

TEST_F(DebugOpTest, ChangedInputsAreChangedOnce) {
  Registry::process().register_op(accumulate("debug_accumulate", 0));
  for (const Device device : devices_) {
    const Tensor total = make_f32(std::vector<float>(300, 10.0F), device);
    const Tensor x = make_f32(std::vector<float>(300, 1.0F), device);
    const DebugReport report = debug_op("debug_accumulate", {total, x}, {{"n", std::int64_t{300}}});
    EXPECT_EQ(report.error, "");
    EXPECT_TRUE(report.ok());
    EXPECT_GT(report.warm_calls, 0);
    EXPECT_EQ(read_f32(total), std::vector<float>(300, 11.0F)) << to_string(device);
    EXPECT_EQ(report.inputs[0].before->mean, 10);
    EXPECT_EQ(report.inputs[0].after->mean, 11);
    EXPECT_FALSE(report.inputs[1].after);
    EXPECT_TRUE(report.outputs.empty());
    ASSERT_EQ(report.results.size(), 1u);
    EXPECT_EQ(report.results[0].data(), total.data());
    ASSERT_EQ(report.comparisons.size(), 1u);
    EXPECT_EQ(report.comparisons[0].name, "total");
    EXPECT_TRUE(report.comparisons[0].comparison.value().ok());
    EXPECT_THAT(to_string(report), Says("before: min 10, max 10", "after: min 11, max 11", "changed by the op"));
  }
}

TEST_F(DebugOpTest, OutputsMayBeInputs) {
  for (const Device device : devices_) {
    std::vector<float> image(64, 7.0F);
    const Tensor memory = make_f32(image, device);
    const Tensor outputs[] = {view_of(memory, {30}, {2}, 1)};
    const DebugReport report = debug_op("neg", {outputs[0]}, {}, {.outputs = outputs});
    EXPECT_EQ(report.error, "");
    EXPECT_TRUE(report.ok());
    EXPECT_TRUE(report.comparisons.at(0).comparison.has_value());
    EXPECT_EQ(report.results.at(0).data(), outputs[0].data());
    EXPECT_GT(report.warm_calls, 0);
    for (std::size_t i = 1; i < 60; i += 2) image[i] = -7;
    EXPECT_EQ(read_f32(memory), image);
  }
}

TEST_F(DebugOpTest, BuiltInOpsThatChangeInputs) {
  const OpSpec& spec = Registry::process().get("kv_append");
  for (const Device device : devices_) {
    const Example& example = spec.examples.front();
    const std::vector<Tensor> inputs = DrawnCall(spec, example, std::random_device{}()).on(device);
    const DebugReport report = debug_op("kv_append", inputs, example.attributes);
    EXPECT_EQ(report.error, "");
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.comparisons.size(), 2u);
    for (const DebuggedResult& result : report.comparisons) EXPECT_TRUE(result.comparison) << result.why_not;
  }
}

TEST_F(DebugOpTest, WhatLiesAtAddressesIsChangedOnceAndCompared) {
  for (const Device device : devices_) {
    const Tensor key = make_patterns({1, 2, 1, 4}, 3, device);
    const Tensor keys = make_patterns({1, 2, 1, 4}, 50, device), values = make_patterns({1, 2, 1, 4}, 70, device);
    const auto table = [&](const Tensor& cache) {
      return make_integers(DType::i64, {1}, {reinterpret_cast<std::intptr_t>(cache.data())}, device);
    };
    const DebugReport report = debug_op(
        "kv_append_layers", {key, key, table(keys), table(values), make_integers(DType::i64, {2}, {-1, 0}, device)},
        {{"num_blocks", std::int64_t{1}}, {"page", std::int64_t{2}}});
    EXPECT_TRUE(report.ok()) << to_string(report);
    EXPECT_GT(report.warm_calls, 0);
    EXPECT_EQ(read_bits(keys), (std::vector<std::int64_t>{7, 8, 9, 10, 54, 55, 56, 57}));
    ASSERT_EQ(report.comparisons.size(), 2u);
    EXPECT_EQ(report.comparisons[0].name, "key_caches[0]");
    EXPECT_EQ(report.comparisons[1].comparison.value().num_elements, 8);
    EXPECT_DOUBLE_EQ(report.skipped.value().share(), 0.5);
    EXPECT_THAT(to_string(report),
                AllOf(HasSubstr("50.0% of the work: 1 of 2 entries of 'slot_mapping'"), Not(HasSubstr("FAILED"))));
    EXPECT_THROW(debug_op("kv_append_layers",
                          {key, key, make_integers(DType::i64, {1}, {0}, device), table(values),
                           make_integers(DType::i64, {2}, {-1, 0}, device)},
                          {{"num_blocks", std::int64_t{1}}, {"page", std::int64_t{2}}}),
                 UsageError);
  }
}

TEST_F(DebugOpTest, AWrongResultIsCountedAndPlaced) {
  Registry::process().register_op(accumulate("debug_wrong", 0.5F));
  for (const Device device : devices_) {
    const DebugReport report =
        debug_op("debug_wrong", {make_f32({1, 2}, device), make_f32({1, 2}, device)}, {{"n", std::int64_t{2}}});
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.comparisons.at(0).comparison.value().num_wrong, 2);
    EXPECT_DOUBLE_EQ(report.comparisons.at(0).comparison->max_error, 0.5);
    EXPECT_THAT(to_string(report),
                HasSubstr("total: WRONG, 2 of 2 elements are beyond the tolerance; largest error 0.5; "
                          "worst at [0]: 2, reference 2.5, allowed error 0.25"));
  }
}

TEST_F(DebugOpTest, SaysWhyNothingIsCompared) {
  OpSpec spec = accumulate("debug_without_reference", 0);
  spec.reference = nullptr;
  Registry::process().register_op(spec);
  OpSpec failing = accumulate("debug_failing_reference", 0);
  failing.reference = [](const OpCall&) { throw std::runtime_error("no idea"); };
  Registry::process().register_op(failing);
  for (const Device device : devices_) {
    const std::vector<Tensor> inputs{make_f32({1, 2}, device), make_f32({1, 2}, device)};
    const DebugReport report = debug_op("debug_without_reference", inputs, {{"n", std::int64_t{2}}});
    EXPECT_TRUE(report.ok());
    EXPECT_THAT(to_string(report), HasSubstr("total: not compared, the op has no reference"));
    EXPECT_THAT(to_string(debug_op("debug_failing_reference", inputs, {{"n", std::int64_t{2}}})),
                HasSubstr("total: not compared, the reference failed: no idea"));
    const Tensor wide = view_of(make_f32({1}, device), {std::int64_t{1} << 28}, {0});  // 1 GiB to look at
    const DebugReport large = debug_op("sum", {wide});
    EXPECT_THAT(to_string(large), HasSubstr("out: not compared, too large to compare: 1.0 GiB"));
    EXPECT_EQ(read_f32(large.results.at(0)).at(0), 268435456.0F);
  }
}

TEST_F(DebugOpTest, AFailureLosesNothing) {
  register_elementwise_kernel({.name = "debug_broken",
                               .doc = "",
                               .source = {"broken.hpp",
                                          "#include <kiln/tl.hpp>\ntemplate <typename T, int BLOCK_SIZE> KILN_KERNEL "
                                          "void broken(const T* x, T* out, kiln::tl::int64_t n) { undeclared; }\n",
                                          {}},
                               .kernel = "broken"});
  for (const Device device : devices_) {
    const DebugReport report = debug_op("debug_broken", {make_f32({1, 2, NAN}, device)});
    EXPECT_FALSE(report.ok());
    EXPECT_THAT(report.error, HasSubstr("undeclared"));
    EXPECT_EQ(report.inputs.at(0).before.value().num_nan, 1);
    EXPECT_TRUE(report.results.empty());
    EXPECT_FALSE(report.first_us);
    ASSERT_TRUE(report.plan);
    EXPECT_FALSE(report.plan->config.empty());
    EXPECT_TRUE(report.memory_after);
    EXPECT_THAT(to_string(report), Says("1 NaN", "FAILED: the call: kernel of op", "undeclared", "memory"));
  }
}

TEST_F(DebugOpTest, ZeroSizeAndLeftOutInputs) {
  for (const Device device : devices_) {
    const DebugReport nothing = debug_op("neg", {make_f32(Dims{0, 4}, {}, device)});
    EXPECT_TRUE(nothing.ok());
    EXPECT_THAT(to_string(nothing), Says("no memory", "no elements", "none: every output is empty"));
    const DebugReport left_out = debug_op("clamp", {make_f32({1, 5}, device)}, {{"max", 2.0}});
    EXPECT_TRUE(left_out.ok());
  }
}

TEST_F(DebugOpTest, WithNoMemoryForCopiesThereIsNoWarmTime) {
  constexpr std::size_t kBytes = (std::size_t{4} << 30) + sizeof(float);
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  TensorView apart = dense_view(memory, DType::f32, {2});
  apart.strides = {std::int64_t{1} << 30};
  const Tensor x = make_f32({1, 2}, Device::cpu());
  const Tensor outputs[] = {{apart, std::shared_ptr<void>(memory, [](void* mapped) { munmap(mapped, kBytes); })}};
  dispatch_gpu_op("neg", {x}, {}, {.outputs = outputs});  // compiles
  std::int64_t pages = 0;
  ASSERT_TRUE(std::ifstream("/proc/self/statm") >> pages);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit little = before;
  little.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{1} << 30);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  const DebugReport report = debug_op("neg", {x}, {}, {.outputs = outputs});
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_TRUE(report.ok()) << to_string(report);
  EXPECT_EQ(report.error, "");
  EXPECT_FALSE(report.warm_us);
  EXPECT_THAT(report.no_warm_time, HasSubstr("no room for copies"));
  EXPECT_EQ(report.outputs.at(0).after.value().min, -2);
}

TEST_F(DebugOpTest, BadInputIsRefused) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({1, 2, 3}, device);
    EXPECT_THROW(debug_op("no_such_op", {x}), UsageError);
    EXPECT_THROW(debug_op("neg", {}), UsageError);
    EXPECT_THROW(debug_op("neg", {x}, {{"alpha", 1.0}}), UsageError);
    EXPECT_THROW(debug_op("add", {x, make_f32({1, 2}, device)}), UsageError);
    EXPECT_THROW(debug_op("neg", {Tensor(dense_view(nullptr, DType::f32, {4}, device), nullptr)}), UsageError);
    const Tensor outputs[] = {view_of(x, {2}, {1}, 1)};
    EXPECT_THROW(debug_op("neg", {view_of(x, {2}, {1})}, {}, {.outputs = outputs}), UsageError);
    const Config config{{"BLOCK_SIZE", 3}};
    EXPECT_THROW(debug_op("neg", {x}, {}, {.config = &config}), UsageError);
    EXPECT_EQ(read_f32(x), (std::vector<float>{1, 2, 3}));
  }
}

TEST_F(DebugOpTest, RandomCallsOfManyOps) {
  std::mt19937_64 random(std::random_device{}());
  for (const Device device : devices_)
    for (const char* const op : {"add", "softmax", "sum", "copy", "where", "cumsum", "matmul"}) {
      const OpSpec& spec = Registry::process().get(op);
      const Example& example = spec.examples[random() % spec.examples.size()];
      const std::vector<Tensor> inputs = DrawnCall(spec, example, random()).on(device);
      const DebugReport report = debug_op(op, inputs, example.attributes);
      EXPECT_TRUE(report.ok()) << to_string(report);
      EXPECT_FALSE(report.outputs.empty());
    }
}

TEST(DebugOpCaptureTest, IsRefusedWhileTheStreamIsCaptured) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  const OwnedStream stream(Device::cuda());
  const Tensor x = make_f32({1, 2, 3}, Device::cuda());
  const DispatchOptions options{.stream = stream.get()};
  debug_op("neg", {x}, {}, options);
  std::string problem;
  const Graph graph = capture(stream, [&] { problem = usage_message([&] { debug_op("neg", {x}, {}, options); }); });
  EXPECT_THAT(problem, HasSubstr("cannot be debugged while the stream is being captured"));
}

}  // namespace
}  // namespace kiln::test
