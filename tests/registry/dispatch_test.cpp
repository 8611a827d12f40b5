#include "registry/dispatch/dispatch.hpp"

#include <cmath>

#include "tests/support/devices.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

class DispatchTest : public DevicesTest {};

TEST_F(DispatchTest, AllocatesOutputsOnTheInputsDevice) {
  for (const Device device : devices_) {
    const Tensor sum = dispatch_gpu_op("add", {make_f32({2, 2}, {1, 2, 3, 4}, device), make_f32({10, 20}, device)});
    EXPECT_EQ(sum.device(), device);
    EXPECT_EQ(sum.shape(), (Dims{2, 2}));
    EXPECT_EQ(sum.dtype(), DType::f32);
    EXPECT_EQ(read_f32(sum), (std::vector<float>{11, 22, 13, 24}));
  }
}

TEST_F(DispatchTest, WritesAndReturnsGivenOutputs) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({1, 2, 3}, device), y = make_f32({4, 5, 6}, device), out = make_f32({0, 0, 0}, device);
    const Tensor outputs[] = {out};
    const Tensor returned = dispatch_gpu_op("mul", {x, y}, {}, {.outputs = outputs});
    EXPECT_EQ(returned.data(), out.data());
    EXPECT_EQ(read_f32(out), (std::vector<float>{4, 10, 18}));
    const std::vector<Tensor> all = dispatch_gpu_op_all("mul", outputs, {{"other", 2.0}});
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(read_f32(all[0]), (std::vector<float>{8, 20, 36}));
  }
}

TEST_F(DispatchTest, AnOptionalInputMayBeLeftOutAnywhere) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({2, 2}, {1, 3, -2, 2}, device), bias = make_f32({10, 20}, device);
    EXPECT_EQ(read_f32(dispatch_gpu_op("matmul", {x, x, Tensor{}})), read_f32(dispatch_gpu_op("matmul", {x, x})));
    EXPECT_EQ(read_f32(dispatch_gpu_op("add", {x, Tensor{}}, {{"other", 1.0}})), (std::vector<float>{2, 4, -1, 3}));
    const Attributes no_eps{{"eps", 0.0}};
    EXPECT_EQ(read_f32(dispatch_gpu_op("layer_norm", {x, Tensor{}, bias}, no_eps)), (std::vector<float>{9, 21, 9, 21}));
    EXPECT_EQ(read_f32(dispatch_gpu_op_all("rms_norm", std::vector{x, Tensor{}, x}, no_eps).at(1)),
              (std::vector<float>{2, 6, -4, 4}));
  }
}

TEST_F(DispatchTest, UpdatesExactlyInPlace) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({2, 3}, {1, 2, 3, 4, 5, 6}, device);
    const Tensor outputs[] = {x};
    dispatch_gpu_op("add", {x, x}, {}, {.outputs = outputs});
    EXPECT_EQ(read_f32(x), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  }
}

TEST_F(DispatchTest, WritesInterleavedAndColumnViewsOfItsInput) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, device);
    const Tensor odd[] = {view_of(x, {4}, {2}, 1)};
    dispatch_gpu_op("neg", {view_of(x, {4}, {2})}, {}, {.outputs = odd});
    EXPECT_EQ(read_f32(x), (std::vector<float>{1, -1, 3, -3, 5, -5, 7, -7}));
    const Tensor right[] = {view_of(x, {2, 2}, {4, 1}, 2)};
    dispatch_gpu_op("neg", {view_of(x, {2, 2}, {4, 1})}, {}, {.outputs = right});
    EXPECT_EQ(read_f32(x), (std::vector<float>{1, -1, -1, 1, 5, -5, -5, 5}));
  }
}

TEST_F(DispatchTest, ZeroSizeTensorsLaunchNothing) {
  for (const Device device : devices_) {
    const Tensor none = make_f32({0, 3}, {}, device);
    const Tensor sum = dispatch_gpu_op("add", {none, make_f32({1, 2, 3}, device)});
    EXPECT_EQ(sum.shape(), (Dims{0, 3}));
    const Tensor null_view({nullptr, DType::f32, device, {0}, {1}}, nullptr);
    EXPECT_EQ(dispatch_gpu_op("neg", {null_view}).numel(), 0);
  }
}

TEST_F(DispatchTest, SameShapesWithOtherAttributesAreOtherPlans) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({1, -1}, device);
    for (int repeat = 0; repeat < 3; ++repeat)
      for (const double other : {2.0, 3.0, -0.0}) {
        const std::vector<float> values = read_f32(dispatch_gpu_op("mul", {x}, {{"other", other}}));
        ASSERT_EQ(values, (std::vector<float>{static_cast<float>(other), static_cast<float>(-other)}));
        ASSERT_EQ(std::signbit(values[0]), std::signbit(other));
      }
    EXPECT_EQ(dispatch_gpu_op("cast", {x}, {{"dtype", DType::i32}}).dtype(), DType::i32);
    EXPECT_EQ(dispatch_gpu_op("cast", {x}, {{"dtype", DType::f64}}).dtype(), DType::f64);
  }
}

TEST_F(DispatchTest, OneLoadedKernelServesManyShapes) {
  for (const Device device : devices_) {
    const TensorView x{nullptr, DType::f32, device, {1000}, {1}}, y{nullptr, DType::f32, device, {1001}, {1}};
    const ResolvedOp first = resolve("sqrt", {x});
    const auto builds = ArtifactCache::process().counters().builds;
    const ResolvedOp second = resolve("sqrt", {y});
    EXPECT_EQ(ArtifactCache::process().counters().builds, builds);
    EXPECT_EQ(second.report().kernels.at(0).artifact_key, first.report().kernels.at(0).artifact_key);
    EXPECT_EQ(second.report().kernels.at(0).load_us, 0);
  }
}

TEST_F(DispatchTest, ReportsWhereThePlanCameFrom) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({1, 2, 3}, device);
    const ResolvedOp by_default = resolve("log1p", {x});
    EXPECT_EQ(by_default.report().config_source, "default");
    EXPECT_FALSE(by_default.report().variant.empty());
    ASSERT_EQ(by_default.report().kernels.size(), 1u);
    const PlanReport::Kernel& kernel = by_default.report().kernels[0];
    EXPECT_THAT(kernel.name, HasSubstr("Log1p"));
    EXPECT_EQ(kernel.artifact_key.size(), 32u);
    EXPECT_EQ(kernel.artifact_origin, ArtifactCache::Origin::compiled);
    EXPECT_GT(kernel.artifact_us, 0);
    EXPECT_DOUBLE_EQ(by_default.report().cost.bytes, 24);
    ASSERT_EQ(by_default.outputs().size(), 1u);
    EXPECT_EQ(by_default.outputs()[0].shape, (Dims{3}));
    const Config config = by_default.report().config;
    EXPECT_EQ(resolve("log1p", {x}, {}, {.config = &config}).report().config_source, "given");
  }
}

TEST_F(DispatchTest, ResolvedOpsRunOnOtherTensorsOfTheSameKind) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({1, 2, 3}, device), y = make_f32({10, 20, 30}, device), out = make_f32({0, 0, 0}, device);
    const ResolvedOp add = resolve("add", {x, y});
    const Stream stream = Stream::default_of(device);
    add({x, y}, {out}, stream);
    EXPECT_EQ(read_f32(out), (std::vector<float>{11, 22, 33}));
    add({out, y}, {out}, stream);
    EXPECT_EQ(read_f32(out), (std::vector<float>{21, 42, 63}));
  }
}

TEST_F(DispatchTest, RunsOnAStreamOfItsOwn) {
  for (const Device device : devices_) {
    if (!device.is_cuda()) continue;
    const OwnedStream stream(device);
    const Tensor x = make_f32(std::vector<float>(100000, 1.5f), device);
    const Tensor sum = dispatch_gpu_op("add", {x, x}, {}, {.stream = stream.get()});
    synchronize(stream);
    EXPECT_EQ(read_f32(sum), std::vector<float>(100000, 3.0f));
  }
}

TEST(CompileRequestTest, NeedsNoDevice) {
  const TensorView x{nullptr, DType::bf16, Device::cuda(7), {1024, 1024}, {1024, 1}};
  const Target target = parse_cuda_target("sm_90a");
  const CompileRequest request = compile_requests("add", std::vector{x, x}, {}, target).at(0);
  EXPECT_EQ(request.op, "add");
  EXPECT_EQ(request.target, target);
  EXPECT_THAT(instance_name(request), Says("Add", "bfloat16"));
  const Config config{{"BLOCK_SIZE", 512}, {"num_warps", 2}};
  EXPECT_EQ(compile_requests("add", std::vector{x, x}, {}, target, &config).at(0).num_warps, 2);
}

}  // namespace
}  // namespace kiln::test
