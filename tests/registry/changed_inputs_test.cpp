// Ops that change inputs: what a call returns, optional inputs left out in the middle, inputs in pinned host memory,
// and plans that check their data before they go on.

#include <cstring>
#include <string>

#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

constexpr const char* kSource = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <int BLOCK_SIZE>
KILN_KERNEL void first_negative(const float* x, tl::int64_t* first, tl::int64_t n) {
  tl::int64_t found = n;
  for (tl::int64_t start = 0; start < n; start += BLOCK_SIZE) {
    const auto offsets = start + tl::arange<BLOCK_SIZE>();
    const auto is_negative = tl::load(x + offsets, offsets < n, 0.0f) < 0.0f;
    const tl::int64_t least = tl::min(tl::where(is_negative, tl::cast<tl::int64_t>(offsets), n));
    found = least < found ? least : found;
  }
  tl::store(first, found);
}
template <int BLOCK_SIZE>
KILN_KERNEL void accumulate(float* total, const float* x, const float* scale, tl::int64_t* count, tl::int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  const float factor = scale == nullptr ? 1.0f : tl::load(scale);
  tl::store(total + offsets, tl::load(total + offsets, mask) + tl::load(x + offsets, mask) * factor, mask);
  if (count != nullptr && tl::program_id(0) == 0) tl::store(count, n);
}
)";

/// total += scale * x; count = number of elements.
OpSpec accumulate(const std::string& name) {
  OpSpec spec;
  spec.name = name;
  spec.doc = "total += scale * x";
  spec.inputs = {{.name = "total", .doc = "", .mutated = true},
                 {.name = "x", .doc = "", .pinned = true},
                 {.name = "scale", .doc = "", .optional = true},
                 {.name = "count", .doc = "", .optional = true, .mutated = true, .dtypes = {DType::i64}}};
  spec.attributes = {{"check_positive", false, false, ""}};
  spec.dtypes = {DType::f32};
  spec.infer = [](std::span<const TensorView>, const Attributes&) { return std::vector<TensorMeta>{}; };
  Variant variant;
  variant.name = "only";
  variant.source = {"accumulate.hpp", kSource, {}};
  variant.kernel = "accumulate";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = [](const Target&) { return ConfigSpace{{{"BLOCK_SIZE", {128}}}, {}}; };
  variant.default_config = [](const OpCall&, const Target&) { return Config{{"BLOCK_SIZE", 128}}; };
  variant.plan = [](const OpCall& call, const Config&, const Target&) {
    const std::int64_t n = call.inputs[0].numel();
    LaunchPlan plan;
    if (call.attributes.get_bool("check_positive")) {
      plan.workspace_bytes = {8};
      KernelLaunch& look = plan.launches.emplace_back();
      look.kernel = "first_negative";
      look.template_arguments = {std::int64_t{128}};
      look.arguments.add_tensor(1);
      look.arguments.add_workspace(0);
      look.arguments.add_value(n);
      plan.check = {1, 0, [n](std::span<const std::byte> bytes) {
                      std::int64_t first = 0;
                      std::memcpy(&first, bytes.data(), sizeof first);
                      if (first < n) throw_value_error("x[" + std::to_string(first) + "] is negative");
                    }};
    }
    KernelLaunch& add = plan.launches.emplace_back();
    add.template_arguments = {std::int64_t{128}};
    add.geometry.grid[0] = (n + 127) / 128;
    add.arguments.add_tensor(0);
    add.arguments.add_tensor(1);
    for (int input : {2, 3}) {
      if (input < static_cast<int>(call.inputs.size()))
        add.arguments.add_tensor(input);
      else
        add.arguments.add_value(static_cast<void*>(nullptr));
    }
    add.arguments.add_value(n);
    return plan;
  };
  spec.variants.push_back(std::move(variant));
  return spec;
}

Tensor make_count(Device device) {
  const Tensor host = empty(Dims{1}, DType::i64, Device::cpu());
  *host.data_as<std::int64_t>() = 0;
  return to_device(host, device);
}

class ChangedInputsTest : public DevicesTest {
 protected:
  static void SetUpTestSuite() { Registry::process().register_op(accumulate("accumulate")); }
};

TEST_F(ChangedInputsTest, TheCallReturnsWhatItChanged) {
  for (const Device device : devices_) {
    const Tensor total = make_f32({1, 2, 3}, device), count = make_count(device);
    const std::vector<Tensor> all = dispatch_gpu_op_all(
        "accumulate", std::vector<Tensor>{total, make_f32({10, 20, 30}, device), make_f32({2}, device), count});
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].data(), total.data());
    EXPECT_EQ(all[1].data(), count.data());
    EXPECT_EQ(read_f32(total), (std::vector<float>{21, 42, 63})) << to_string(device);
    EXPECT_EQ(*to_device(count, Device::cpu()).data_as<std::int64_t>(), 3);
    EXPECT_EQ(dispatch_gpu_op("accumulate", {total, make_f32({1, 1, 1}, device)}).data(), total.data());
    EXPECT_EQ(read_f32(total), (std::vector<float>{22, 43, 64})) << to_string(device);
  }
}

TEST_F(ChangedInputsTest, AnOptionalInputIsLeftOutInTheMiddle) {
  for (const Device device : devices_) {
    const Tensor total = make_f32({1, 2}, device), x = make_f32({5, 5}, device), count = make_count(device);
    dispatch_gpu_op("accumulate", {total, x, Tensor{}, count});
    EXPECT_EQ(read_f32(total), (std::vector<float>{6, 7})) << to_string(device);
    EXPECT_EQ(*to_device(count, Device::cpu()).data_as<std::int64_t>(), 2);
    const ResolvedOp op = resolve("accumulate", {total, x, TensorView{}, count});
    op({total, x, TensorView{}, count}, {}, Stream::default_of(device));
    EXPECT_EQ(read_f32(total), (std::vector<float>{11, 12})) << to_string(device);
    EXPECT_THROW(op({total, x, make_f32({2}, device), count}, {}, Stream::default_of(device)), UsageError);
  }
}

TEST_F(ChangedInputsTest, ErrorsNameTheTensors) {
  for (const Device device : devices_) {
    const Tensor total = make_f32({1, 2, 3, 4}, device), x = make_f32({5, 5, 5, 5}, device);
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {total, view_of(total, {4}, {1})}); }),
                Says("writes input 'total'", "overlaps input 'x'"));
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {view_of(total, {4}, {0}), x}); }),
                HasSubstr("elements of input 'total' may share memory"));
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {total, Tensor{}}); }),
                HasSubstr("null data pointer"));
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {total, x, Tensor{}, x}); }),
                Says("input 'count'", "its dtypes: i64"));
    const std::vector<Tensor> outputs{total};
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {total, x}, {}, {.outputs = outputs}); }),
                HasSubstr("makes no output"));
    EXPECT_EQ(read_f32(total), (std::vector<float>{1, 2, 3, 4})) << to_string(device);
  }
}

TEST_F(ChangedInputsTest, AFailedCheckStopsThePlan) {
  const Attributes checked{{"check_positive", true}};
  for (const Device device : devices_) {
    const Tensor total = make_f32({1, 2, 3}, device);
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {total, make_f32({1, 1, -1}, device)}, checked); }),
                HasSubstr("x[2] is negative"));
    EXPECT_EQ(read_f32(total), (std::vector<float>{1, 2, 3})) << to_string(device);
    dispatch_gpu_op("accumulate", {total, make_f32({1, 1, 1}, device)}, checked);
    EXPECT_EQ(read_f32(total), (std::vector<float>{2, 3, 4})) << to_string(device);
    if (!device.is_cuda()) continue;
    const OwnedStream stream(device);
    const Tensor ones = make_f32({1, 1, 1}, device);
    EXPECT_THAT(usage_message([&] {
                  capture(stream,
                          [&] { dispatch_gpu_op("accumulate", {total, ones}, checked, {.stream = stream.get()}); });
                }),
                HasSubstr("without the check"));
  }
}

TEST_F(ChangedInputsTest, PinnedHostMemoryIsReadByTheGpu) {
  for (const Device device : devices_) {
    if (!device.is_cuda()) continue;
    const Tensor total = make_f32({1, 2, 3}, device), pageable = make_f32({7, 8, 9});
    const Tensor pinned = pinned_pool().empty(Dims{3}, DType::f32);
    std::memcpy(pinned.data(), pageable.data(), 3 * sizeof(float));
    dispatch_gpu_op("accumulate", {total, pinned});
    EXPECT_EQ(read_f32(total), (std::vector<float>{8, 10, 12}));
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {total, pageable}); }),
                Says("input 'x'", "page-locked"));
    EXPECT_THAT(usage_message([&] { dispatch_gpu_op("accumulate", {pinned, total}); }), HasSubstr("one device"));
    EXPECT_EQ(read_f32(total), (std::vector<float>{8, 10, 12}));
    return;
  }
  GTEST_SKIP() << device_problem(DeviceType::cuda);
}

TEST(ChangedInputsSpec, MakesOutputsOrChangesInputs) {
  OpSpec both = accumulate("both");
  both.outputs = {{"out", ""}};
  EXPECT_THROW(Registry::process().register_op(both), UsageError);
  OpSpec neither = accumulate("neither");
  for (InputSpec& input : neither.inputs) input.mutated = false;
  EXPECT_THROW(Registry::process().register_op(neither), UsageError);
}

}  // namespace
}  // namespace kiln::test
