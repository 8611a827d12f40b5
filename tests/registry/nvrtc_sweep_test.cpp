// Compiles every op for the architectures that matter, with no GPU, and refuses spills and kernels that leave out one
// of their tensors: NVRTC once took the first input for all of them. The everyday run takes one kernel for each op
// (tests/support/sweep_amount.hpp).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compiler.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/launched_kernel.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NvrtcSweep : public ::testing::TestWithParam<std::string> {};

TEST_P(NvrtcSweep, CompilesWithoutSpillingAndReachesEveryTensor) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get(GetParam());
  ASSERT_FALSE(spec.examples.empty());
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  // Each op draws its own, so that a run meets all of them.
  std::mt19937_64 random(sweep_seed() ^ std::hash<std::string>{}(spec.name));
  const std::vector<std::string> archs = swept_architectures(random);
  // Variants behind the one that takes the call, which are for other layouts, are compiled for one of them.
  const std::string& drawn = archs[random() % archs.size()];
  std::vector<LaunchedKernel> swept_kernels;
  for (const std::string& arch : archs) {
    const std::vector<LaunchedKernel> kernels =
        kernels_of_all_variants(spec, spec.examples[0], parse_cuda_target(arch));
    ASSERT_FALSE(kernels.empty()) << arch;
    std::ranges::copy_if(kernels, std::back_inserter(swept_kernels), [&](const LaunchedKernel& kernel) {
      return arch == drawn || kernel.variant == kernels[0].variant;
    });
  }
  for (const LaunchedKernel& kernel : swept(swept_kernels, 1, random)) {
    const PtxasReport report = expect_no_spills(kernel.request);
    EXPECT_THAT(unreached_memory(kernel.arguments, report.ptx), IsEmpty()) << instance_name(kernel.request);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, NvrtcSweep, ::testing::ValuesIn(Registry::process().names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(name.begin(), name.end(), [](char letter) { return letter == '.' || letter == ':'; }, '_');
  return name;
});

/// Kernels of one form are one template whose parameters are the same kinds: "kiln::ops::scan_kernel(memory, memory,
/// value, value)".
std::string form_of(const LaunchedKernel& kernel) {
  std::string kinds;
  for (const int memory : memory_of_parameters(kernel.arguments))
    kinds += std::string(kinds.empty() ? "" : ", ") + (memory < 0 ? "value" : "memory");
  return kernel.request.kernel + "(" + kinds + ")";
}

/// Of rows without elements, whose length is a kernel's constant, there is nothing to reach.
bool is_empty(const Example& example) {
  return std::ranges::any_of(example.inputs, [](const TensorMeta& meta) { return num_elements(meta.shape) == 0; });
}

/// Without machine code, which is a fifth of a compile.
std::string ptx_of(CompileRequest request) {
  request.target.features = "ptx";
  return make_nvrtc_compiler()->emit(request, EmitKind::ptx);
}

TEST(NvrtcForms, ReachEveryTensor) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  constexpr int kRandomCalls = 10;
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  std::mt19937_64 random(sweep_seed());
  // Of every form one kernel, another one every time.
  std::map<std::string, std::pair<LaunchedKernel, unsigned>> drawn;
  for (const std::string& name : Registry::process().names()) {
    const OpSpec& spec = Registry::process().get(name);
    std::vector<Example> examples = spec.examples;
    for (int i = 0; spec.random_example && i < kRandomCalls; ++i) examples.push_back(spec.random_example(random));
    std::erase_if(examples, is_empty);
    for (const Example& example : examples)
      for (const LaunchedKernel& kernel : kernels_of_all_variants(spec, example, parse_cuda_target("sm_90a"))) {
        auto& [chosen, count] = drawn[form_of(kernel)];
        if (random() % ++count == 0) chosen = kernel;
      }
  }
  EXPECT_GE(drawn.size(), 50u);
  std::vector<LaunchedKernel> kernels;
  for (const auto& [form, kernel] : drawn) kernels.push_back(kernel.first);
  for (const LaunchedKernel& kernel : swept_by_halves(kernels, 5, random))
    EXPECT_THAT(unreached_memory(kernel.arguments, ptx_of(kernel.request)), IsEmpty())
        << kernel.request.op << ": " << instance_name(kernel.request);
}

TEST(NvrtcForms, AKernelThatLeavesMemoryOutIsFound) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  CompileRequest request;
  request.op = "sum_of_some";
  request.source = {"sum_of_some.cu",
                    "#include <kiln/tl.hpp>\n"
                    "template <typename T>\n"
                    "KILN_KERNEL void sum_of_some(T* out, const T* a, const T* b, int n, const T* c, const T* d,\n"
                    "                             const T* e, const T* f, const T* g, const T* h, const T* i) {\n"
                    "  out[n] = b[n] + c[n] + d[n] + f[n] + g[n] + h[n] + i[n];\n}\n",
                    {}};
  request.kernel = "sum_of_some";
  request.template_arguments = {DType::f32};
  request.target = parse_cuda_target("sm_90a");
  ArgumentTemplate arguments;
  for (const int tensor : {0, 1, 2}) arguments.add_tensor(tensor);
  arguments.add_value(7);
  for (const int tensor : {3, 4}) arguments.add_tensor(tensor);
  arguments.add_workspace(1);
  for (const int tensor : {5, 6, 7, 8}) arguments.add_tensor(tensor);
  EXPECT_THAT(unreached_memory(arguments, ptx_of(request)), ElementsAre("tensor 1", "workspace 1"));
}

}  // namespace
}  // namespace kiln::test
