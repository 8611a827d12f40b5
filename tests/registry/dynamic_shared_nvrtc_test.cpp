// A kernel that uses dynamic shared memory is not launched with none of it, which on a GPU costs the process its
// context. Found with no GPU, from what the compiler says of the kernel.

#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/plan/build_plan.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_kernel.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr const char* kProducts = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
KILN_DEVICE auto tile() { return tl::expand_dims<1>(tl::arange<32>()) * 32 + tl::expand_dims<0>(tl::arange<32>()); }
template <typename T, int NUM_STAGES>
KILN_KERNEL void products(const T* x, T* out, tl::int64_t n) {
  auto acc = tl::dot_accumulator<T, 32, 32>();
  const auto load = [&](tl::int64_t step) { return tl::deferred_load(x + step * 1024 + tile()); };
  tl::pipeline<NUM_STAGES>(
      n, [&](tl::int64_t step) { return tl::Tuple{load(step), load(step)}; },
      [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); });
  tl::store(out + tile(), acc);
}
)";

UserKernel products() {
  UserKernel kernel;
  kernel.name = "user_products";
  kernel.source = {"products.hpp", kProducts, {}};
  kernel.tunables = {{"NUM_STAGES", {2}}};
  kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{1, 1, 1}; };
  return kernel;
}

/// What each launch of a call is refused for, or "none", once it is compiled.
std::vector<std::string> problems_of(const OpSpec& spec, const std::vector<TensorView>& inputs,
                                     const std::vector<TensorView>& outputs, const Attributes& attributes,
                                     const Target& target) {
  const Call call{.spec = &spec, .inputs = inputs, .outputs = outputs, .attributes = attributes};
  const Choice choice = choose(call, target, nullptr);
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < choice.requests.size(); ++i) {
    const Artifact artifact = compiler_for(target.type).compile(choice.requests[i]);
    try {
      check_shared_memory(choice.requests[i], artifact.takes_dynamic_shared, choice.plan.launches[i].geometry);
      problems.emplace_back("none");
    } catch (const UsageError& error) {
      problems.emplace_back(error.what());
    }
  }
  return problems;
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

TEST_P(DynamicShared, ALaunchThatStatesNoneIsRefused) {
  const Target target = parse_cuda_target(GetParam());
  const OpSpec direct = kernel_op(products());
  Attributes attributes;
  for (const AttributeSpec& attribute : direct.attributes) attributes.set(attribute.name, attribute.fallback);
  attributes.set("n", std::int64_t{4});
  EXPECT_THAT(problems_of(direct, {tensor({4, 32, 32}), tensor({32, 32})}, {}, attributes, target),
              ElementsAre(Says("op 'user_products'", "products<float, 2>", "dynamic shared memory", "shared_bytes")));

  OpSpec spec;
  spec.name = "user_products";
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", ""}};
  spec.attributes = {{"n", std::int64_t{4}, false, ""}};
  for (const std::int32_t bytes : {0, 2 * 2 * 32 * 32 * 4}) {
    const Variant variant = kernel_variant(spec, products(), [bytes](const OpCall&, const Config&, const Target&) {
      return LaunchValues{.shared_bytes = bytes};
    });
    spec.variants = {variant};
    EXPECT_THAT(problems_of(spec, {tensor({4, 32, 32})}, {tensor({32, 32})}, {{"n", std::int64_t{4}}}, target),
                ElementsAre(bytes == 0 ? HasSubstr("gives it none") : HasSubstr("none")));
  }
}

TEST_P(DynamicShared, BuiltInOpsStateTheirs) {
  const Target target = parse_cuda_target(GetParam());
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const OpSpec& spec = Registry::process().get("matmul");
    Attributes attributes;
    for (const AttributeSpec& attribute : spec.attributes) attributes.set(attribute.name, attribute.fallback);
    for (const std::string& problem : problems_of(spec, {tensor({256, 256}, dtype), tensor({256, 256}, dtype)},
                                                  {tensor({256, 256}, dtype)}, attributes, target))
      EXPECT_EQ(problem, "none") << name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DynamicShared, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace kiln::test
