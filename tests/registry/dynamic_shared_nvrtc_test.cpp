// A kernel that uses dynamic shared memory is launched with what its pipelines need, and never with less, which on a
// GPU costs the process its context. Found with no GPU, from what the compiler says of the kernel.

#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/plan/build_plan.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_kernel.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/pipelined_kernel.hpp"

namespace kiln::test {
namespace {

constexpr const char* kOwnArray = R"(#include <kiln/tl.hpp>
template <typename T>
KILN_KERNEL void reversed(const T* x, T* out, tl::int64_t n) {
  extern __shared__ unsigned char places[];
  T* const values = reinterpret_cast<T*>(places);
  values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = values[n - 1 - threadIdx.x];
}
)";

UserKernel user_kernel(const std::string& name, const char* text) {
  UserKernel kernel;
  kernel.name = name;
  kernel.source = {name + ".hpp", text, {}};
  kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{1, 1, 1}; };
  return kernel;
}

UserKernel products() {
  UserKernel kernel = user_kernel("user_products", kProducts);
  kernel.tunables = {{"NUM_STAGES", {2}}};
  return kernel;
}

/// An op of one input and one output, whose launch states `shared_bytes`.
OpSpec stating(const UserKernel& kernel, std::int32_t shared_bytes) {
  OpSpec spec;
  spec.name = kernel.name;
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", ""}};
  spec.attributes = {{"n", std::int64_t{4}, false, ""}};
  spec.variants = {kernel_variant(spec, kernel, [shared_bytes](const OpCall&, const Config&, const Target&) {
    return LaunchValues{.shared_bytes = shared_bytes};
  })};
  return spec;
}

constexpr std::int32_t kAvailableBytes = 227 * 1024;

/// One launch of a call, compiled.
struct CompiledLaunch {
  CompileRequest request;
  LoadedKernel kernel;  ///< not loaded
  std::int32_t stated_bytes;
};

std::vector<CompiledLaunch> compiled_launches(const OpSpec& spec, const std::vector<TensorView>& inputs,
                                              const std::vector<TensorView>& outputs, const Attributes& attributes,
                                              const Target& target) {
  const Call call{.spec = &spec, .inputs = inputs, .outputs = outputs, .attributes = attributes};
  const Choice choice = choose(call, target, nullptr);
  std::vector<CompiledLaunch> launches;
  for (std::size_t i = 0; i < choice.requests.size(); ++i) {
    const Artifact artifact = compiler_for(target.type).compile(choice.requests[i]);
    launches.push_back({choice.requests[i],
                        {nullptr, "", artifact.takes_dynamic_shared, artifact.dynamic_shared_bytes, {}},
                        choice.plan.launches[i].geometry.shared_bytes});
  }
  return launches;
}

/// How much shared memory each launch gets, or what it is refused for.
std::vector<std::string> shared_memory_of(const std::vector<CompiledLaunch>& launches,
                                          std::int32_t available_bytes = kAvailableBytes) {
  std::vector<std::string> found;
  for (const CompiledLaunch& launch : launches) {
    try {
      found.push_back(
          std::to_string(launch_shared_bytes(launch.request, launch.kernel, launch.stated_bytes, available_bytes)));
    } catch (const UsageError& error) {
      found.emplace_back(error.what());
    }
  }
  return found;
}

class DynamicShared : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string problem = compiler_problem(DeviceType::cuda); !problem.empty()) GTEST_SKIP() << problem;
  }
  static TensorView tensor(const Dims& shape, DType dtype = DType::f32) {
    return dense_view(reinterpret_cast<void*>(std::uintptr_t{1} << 20), dtype, shape, Device::cuda(0));
  }
};

TEST_P(DynamicShared, ALaunchThatStatesNoneGetsWhatPipelinesNeed) {
  const Target target = parse_cuda_target(GetParam());
  const OpSpec direct = kernel_op(products());
  Attributes attributes;
  for (const AttributeSpec& attribute : direct.attributes) attributes.set(attribute.name, attribute.fallback);
  attributes.set("n", std::int64_t{4});
  const std::string needed = std::to_string(kProductsBytes);
  const auto launches = compiled_launches(direct, {tensor({4, 32, 32}), tensor({32, 32})}, {}, attributes, target);
  EXPECT_THAT(shared_memory_of(launches), ElementsAre(needed));
  EXPECT_THAT(shared_memory_of(launches, kProductsBytes), ElementsAre(needed));
  EXPECT_THAT(shared_memory_of(launches, kProductsBytes - 1),
              ElementsAre(Says("op 'user_products'", "products<float, 2>", "NUM_STAGES=2", needed + " bytes",
                               std::to_string(kProductsBytes - 1), "smaller blocks or fewer stages")));
}

TEST_P(DynamicShared, ALaunchMayStateMoreThanPipelinesNeedButNotLess) {
  const Target target = parse_cuda_target(GetParam());
  const auto of = [&](std::int32_t stated_bytes) {
    return shared_memory_of(compiled_launches(stating(products(), stated_bytes), {tensor({4, 32, 32})},
                                              {tensor({32, 32})}, {{"n", std::int64_t{4}}}, target));
  };
  for (const std::int32_t bytes : {kProductsBytes, kProductsBytes + 1, kAvailableBytes})
    EXPECT_THAT(of(bytes), ElementsAre(std::to_string(bytes)));
  EXPECT_THAT(of(0), ElementsAre(std::to_string(kProductsBytes)));
  for (const std::int32_t bytes : {-1, 1, kProductsBytes - 1})
    EXPECT_THAT(of(bytes), ElementsAre(Says("op 'user_products'", "products<float, 2>", std::to_string(kProductsBytes),
                                            "shared_bytes=" + std::to_string(bytes), "leave shared_bytes out")));
  EXPECT_THAT(of(kAvailableBytes + 1),
              ElementsAre(Says("is launched with " + std::to_string(kAvailableBytes + 1), "has 232448")));
}

TEST_P(DynamicShared, AnArrayOfTheKernelsOwnNeedsASizeFromItsLaunch) {
  const Target target = parse_cuda_target(GetParam());
  const auto of = [&](std::int32_t stated_bytes) {
    return shared_memory_of(compiled_launches(stating(user_kernel("user_reversed", kOwnArray), stated_bytes),
                                              {tensor({4})}, {tensor({4})}, {{"n", std::int64_t{4}}}, target));
  };
  EXPECT_THAT(of(0), ElementsAre(Says("op 'user_reversed'", "reversed<float>", "gives it none", "shared_bytes")));
  EXPECT_THAT(of(16), ElementsAre("16"));
}

TEST_P(DynamicShared, BuiltInOpsStateEnough) {
  const Target target = parse_cuda_target(GetParam());
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const OpSpec& spec = Registry::process().get("matmul");
    Attributes attributes;
    for (const AttributeSpec& attribute : spec.attributes) attributes.set(attribute.name, attribute.fallback);
    const auto launches = compiled_launches(spec, {tensor({256, 256}, dtype), tensor({256, 256}, dtype)},
                                            {tensor({256, 256}, dtype)}, attributes, target);
    EXPECT_TRUE(launches.front().kernel.takes_dynamic_shared) << name(dtype);
    for (const CompiledLaunch& launch : launches) {
      EXPECT_GE(launch.stated_bytes, launch.kernel.dynamic_shared_bytes) << instance_name(launch.request);
      EXPECT_EQ(launch.stated_bytes > 0, launch.kernel.takes_dynamic_shared) << instance_name(launch.request);
      EXPECT_EQ(shared_memory_of({launch}).front(), std::to_string(launch.stated_bytes));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DynamicShared, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace kiln::test
