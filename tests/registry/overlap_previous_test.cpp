// Launches that may start before the one ahead of them ends: which kernels are compiled for it, that those wait before
// anything else, and that results are those of any call.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <random>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compiler.hpp"
#include "compiler/compilers.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/dispatch/warm_up.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/plan_cache.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "registry/user_ops/user_op.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/launched_kernel.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

std::vector<CompileRequest> requests_of(std::string_view op, const Example& example, const char* arch, bool overlap) {
  return compile_requests(op, views_of(example, Device::cuda(0)), example.attributes, parse_cuda_target(arch), nullptr,
                          overlap);
}

[[maybe_unused]] std::string keys_of(const std::vector<CompileRequest>& requests) {
  std::string keys;
  for (const CompileRequest& request : requests) keys += content_key(request, "a compiler").hex() + " ";
  return keys;
}

TEST(OverlapPrevious, NeedsSm90) {
  EXPECT_TRUE(can_overlap_previous(parse_cuda_target("sm_90")));
  EXPECT_TRUE(can_overlap_previous(parse_cuda_target("sm_90a")));
  EXPECT_TRUE(can_overlap_previous(parse_cuda_target("sm_100a")));
  EXPECT_TRUE(can_overlap_previous(parse_cuda_target("sm_120")));
  EXPECT_FALSE(can_overlap_previous(parse_cuda_target("sm_80")));
  EXPECT_FALSE(can_overlap_previous(parse_cuda_target("sm_89")));
  EXPECT_FALSE(can_overlap_previous({DeviceType::cpu, "sm_90", {}}));
}

TEST(OverlapPrevious, IsAKernelOfItsOwnWhereItCanBe) {
  const Example& example = Registry::process().get("add").examples[0];
  EXPECT_EQ(keys_of(requests_of("add", example, "sm_80", true)), keys_of(requests_of("add", example, "sm_80", false)));
  EXPECT_NE(keys_of(requests_of("add", example, "sm_90a", true)),
            keys_of(requests_of("add", example, "sm_90a", false)));
}

TEST(OverlapPrevious, IsNotForKernelsOfUsers) {
  register_elementwise_kernel(
      {.name = "overlap_test.twice",
       .doc = "2 * x",
       .source = {"overlap_test.cu",
                  "#include <kiln/tl.hpp>\n"
                  "template <typename T, int BLOCK_SIZE>\n"
                  "KILN_KERNEL void twice(const T* x, T* out, int64_t n) {\n"
                  "  const auto i = kiln::tl::program_id(0) * BLOCK_SIZE + kiln::tl::arange<BLOCK_SIZE>();\n"
                  "  kiln::tl::store(out + i, kiln::tl::load(x + i, i < n) * T(2), i < n);\n}\n",
                  {}},
       .kernel = "twice"});
  const Example example{.inputs = {{DType::f32, {100}}}, .attributes = {}};
  for (const CompileRequest& request : requests_of("overlap_test.twice", example, "sm_90a", true))
    EXPECT_FALSE(request.overlaps_previous) << "nobody knows whether it waits before it touches memory";
}

TEST(OverlapPrevious, ChangesNothingOnTheCpu) {
  if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  const Tensor x = make_f32({1, 2, 3});
  const Tensor plain = dispatch_gpu_op("add", {x, x});
  const std::size_t plans = PlanCache::process().size();
  const Tensor overlapped = dispatch_gpu_op("add", {x, x}, {}, {.overlap_previous = true});
  EXPECT_EQ(PlanCache::process().size(), plans) << "the plan is the same";
  EXPECT_EQ(read_f32(overlapped), read_f32(plain));
  EXPECT_FALSE(resolve("add", {x, x}, {}, {.overlap_previous = true}).report().kernels.at(0).overlaps_previous);
}

/// Up to the first of `parts`, or all of it.
std::string_view text_before(std::string_view text, std::span<const std::string_view> parts) {
  std::size_t end = text.size();
  for (const std::string_view part : parts) end = std::min(end, text.find(part));
  return text.substr(0, end);
}

void expect_wait_first(Compiler& compiler, const CompileRequest& request) {
  // What touches memory, and what could end a program or lead around the wait.
  constexpr std::array<std::string_view, 14> kTooLate{
      "ld.global", "ld.volatile", "ld.relaxed", "ld.acquire", "st.global", "st.volatile", "st.release",
      "atom.",     "red.",        "cp.async",   "prefetch",   "bra",       "ret;",        "exit;"};
  SCOPED_TRACE(instance_name(request) + ", " + request.configuration);
  ASSERT_TRUE(request.overlaps_previous);
  const std::string ptx = compiler.emit(request, EmitKind::ptx);
  const std::size_t entry = ptx.find(".entry");
  ASSERT_NE(entry, std::string::npos);
  const std::string_view body = std::string_view(ptx).substr(ptx.find('{', entry));
  const std::string_view first = text_before(body, kTooLate);
  EXPECT_NE(first.find("griddepcontrol.wait"), std::string_view::npos) << body.substr(0, first.size() + 80);
  EXPECT_NE(body.find("griddepcontrol.launch_dependents"), std::string_view::npos);
}

/// "matmul_kernel" of "kiln::ops::matmul_kernel".
std::string kernel_name(const CompileRequest& request) {
  return request.kernel.substr(request.kernel.rfind(':') + 1);
}

/// Kernels that the files of ops/ declare.
std::set<std::string> declared_kernels() {
  const std::regex declaration(R"(void\s+(\w+_kernel)\()");
  std::set<std::string> kernels;
  for (const std::string& path : embedded_paths()) {
    if (!path.starts_with("ops/")) continue;
    const std::string text = embedded_source(path).text;
    for (std::sregex_iterator at(text.begin(), text.end(), declaration); at != std::sregex_iterator(); ++at)
      kernels.insert((*at)[1]);
  }
  return kernels;
}

TEST(OverlapPreviousOnNvrtc, EveryKernelWaitsBeforeAnythingElse) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  constexpr int kRandomExamples = 60;
  const auto compiler = make_nvrtc_compiler();
  const Target target = parse_cuda_target("sm_90a");
  // The family of products compiles scales and splits into its kernels: one of each for each op.
  std::set<std::string> forms, seen;
  const auto look_at = [&](const std::string& op, const CompileRequest& request) {
    const bool is_product = request.kernel.find("matmul") != std::string::npos;
    if (!forms.insert(kernel_name(request) + (is_product ? op : std::string())).second) return;
    seen.insert(kernel_name(request));
    expect_wait_first(*compiler, request);
  };
  for (const std::string& name : Registry::process().names()) {
    const OpSpec& spec = Registry::process().get(name);
    // Each op draws its own, whatever other ops there are.
    std::mt19937_64 random(std::hash<std::string>{}(name));
    std::vector<Example> examples = spec.examples;
    for (int i = 0; spec.random_example && i < kRandomExamples; ++i) examples.push_back(spec.random_example(random));
    for (const Example& example : examples)
      for (const LaunchedKernel& kernel : kernels_of_all_variants(spec, example, target, true))
        look_at(name, kernel.request);
  }
  const auto view = [](DType dtype, const Dims& shape, Device device) {
    return dense_view(nullptr, dtype, shape, device);
  };
  const Device gpu = Device::cuda(0);
  // So many rows in host memory that they are sorted first.
  const std::vector<TensorView> rows{view(DType::u8, {65'536, 656}, gpu),
                                     view(DType::u8, {39'000'000, 656}, Device::cpu()),
                                     view(DType::i32, {128, 512, 2}, gpu)};
  for (const CompileRequest& request : compile_requests("sparse_kv_gather", rows, {}, target, nullptr, true))
    look_at("sparse_kv_gather", request);
  // Rows of which a thread holds many numbers.
  for (const CompileRequest& request :
       compile_requests("softmax", std::vector{view(DType::bf16, {4096, 32768}, gpu)}, {}, target, nullptr, true))
    look_at("softmax", request);
  TensorView transposed = view(DType::f32, {1024, 1024}, gpu);
  transposed.strides = {1, 1024};
  for (const CompileRequest& request :
       compile_requests("copy", std::vector{transposed}, {{"dtype", DType::bf16}}, target, nullptr, true))
    look_at("copy", request);
  // Tiles that are shared, and a few rows whose k is split: which products choose these by themselves is a matter of
  // what they cost.
  const std::vector<std::pair<std::int64_t, const char*>> configs_of_rows = {
      {128,
       "BLOCK_M=128 BLOCK_N=128 NUM_STAGES=5 CLUSTER_M=1 CLUSTER_N=1 SPLIT_K=1 MATH_GROUPS=2 TILE_EACH=0 RESIDENT=1 "
       "K_SHARE=4 EXCHANGE=0"},
      {1, "BLOCK_N=64 BLOCK_K=64 UNROLL=4 SPLIT_K=4 num_warps=8"}};
  for (const auto& [m, text] : configs_of_rows) {
    const std::vector<TensorView> long_sums{view(DType::bf16, {m, 8192}, gpu), view(DType::bf16, {8192, 128}, gpu)};
    const Config config = parse_config(text);
    for (const CompileRequest& request : compile_requests("matmul", long_sums, {}, target, &config, true))
      look_at("matmul", request);
  }

  std::vector<std::string> unseen;
  std::ranges::set_difference(declared_kernels(), seen, std::back_inserter(unseen));
  // Kernels of the CPU, and the tuner's own, which follows no other kernel of its stream.
  const std::vector<std::string> never_overlapped = {
      "matmul_blocked_kernel",       "matmul_blocked_partial_kernel", "matmul_inner_kernel",
      "matmul_inner_partial_kernel", "matmul_outer_kernel",           "matmul_outer_partial_kernel",
      "matmul_panels_kernel",        "matmul_stream_kernel",          "matmul_stream_partial_kernel",
      "output_comparison_kernel",    "reduction_span_chunk_kernel",   "reduction_span_kernel",
      "softmax_three_pass_kernel"};
  EXPECT_EQ(unseen, never_overlapped);
}

TEST(OverlapPreviousOnNvrtc, WithoutTheOptionAPlansFirstKernelHasNothingOfIt) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const auto compiler = make_nvrtc_compiler();
  for (const char* op : {"add", "sum", "matmul", "sparse_kv_gather", "scatter_add"}) {
    const std::vector<CompileRequest> requests =
        requests_of(op, Registry::process().get(op).examples[0], "sm_90a", false);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(requests[i].overlaps_previous, i > 0) << instance_name(requests[i]);
      const bool waits = compiler->emit(requests[i], EmitKind::ptx).find("griddepcontrol") != std::string::npos;
      EXPECT_EQ(waits, i > 0) << instance_name(requests[i]);
    }
  }
}

class OverlapOnGpu : public GpuKernelTest {
 protected:
  void SetUp() override {
    GpuKernelTest::SetUp();
    if (IsSkipped()) return;
    if (!can_overlap_previous(device_info(kDevice).target)) GTEST_SKIP() << "needs sm_90 or newer";
  }
  static constexpr DispatchOptions kOverlap{.overlap_previous = true};
};

TEST_F(OverlapOnGpu, AChainGivesWhatItGivesInOrder) {
  // Long enough that a kernel which did not wait would read what is not there yet; every call reads the one before.
  constexpr int kCalls = 200;
  const OwnedStream stream(kDevice);
  const Tensor x = make_f32(std::vector<float>(1 << 20, 1.0f), kDevice);
  const auto chain = [&](bool overlap) {
    Tensor y = x;
    for (int i = 0; i < kCalls; ++i)
      y = dispatch_gpu_op(i % 50 == 49 ? "softmax" : "add", {y},
                          i % 50 == 49 ? Attributes{} : Attributes{{"other", 1.0 + i % 3}},
                          {.stream = stream, .overlap_previous = overlap});
    synchronize(stream);
    return read_f32(y);
  };
  const std::vector<float> wanted = chain(false);
  for (int repeat = 0; repeat < 5; ++repeat) EXPECT_EQ(chain(true), wanted);
}

TEST_F(OverlapOnGpu, InPlaceAndMixedWithOrdinaryLaunchesAndCopies) {
  const OwnedStream stream(kDevice);
  const Tensor y = make_f32(std::vector<float>(1 << 18, 0.0f), kDevice);
  const Tensor staged = empty(y.shape(), y.dtype(), stream);
  synchronize(stream);
  for (int i = 0; i < 300; ++i) {
    const std::array<Tensor, 1> outputs{y};
    dispatch_gpu_op("add", {y}, {{"other", 1.0}},
                    {.outputs = outputs, .stream = stream, .overlap_previous = i % 7 != 3});
    if (i % 11 == 5) {
      copy(staged, y, stream);
      memset_bytes(y, 0, stream);
      copy(y, staged, stream);
    }
  }
  synchronize(stream);
  for (const float value : read_f32(y)) ASSERT_EQ(value, 300.0f);
}

TEST_F(OverlapOnGpu, PlansOfSeveralKernelsShareScratchMemory) {
  const OwnedStream stream(kDevice);
  const Tensor x = make_f32(std::vector<float>(4 << 20, 1.0f), kDevice);
  ASSERT_GT(resolve("sum", {x}, {}, {.stream = stream, .overlap_previous = true}).report().kernels.size(), 1u);
  std::vector<Tensor> sums;
  for (int i = 0; i < 200; ++i)
    sums.push_back(dispatch_gpu_op("sum", {x}, {}, {.stream = stream, .overlap_previous = true}));
  synchronize(stream);
  for (const Tensor& sum : sums) ASSERT_EQ(read_f32(sum).at(0), static_cast<float>(4 << 20));
}

TEST_F(OverlapOnGpu, IsCaptured) {
  const OwnedStream stream(kDevice);
  const Tensor y = make_f32(std::vector<float>(1000, 0.0f), kDevice);
  const std::array<Tensor, 1> outputs{y};
  const auto step = [&] {
    dispatch_gpu_op("add", {y}, {{"other", 1.0}}, {.outputs = outputs, .stream = stream, .overlap_previous = true});
  };
  step();
  const Graph graph = capture(stream, [&] {
    for (int i = 0; i < 10; ++i) step();
  });
  for (int i = 0; i < 5; ++i) graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(read_f32(y).at(0), 51.0f);
}

TEST_F(OverlapOnGpu, IsWarmedUpAsItIsCalled) {
  const OwnedStream stream(kDevice);
  const Tensor x = make_f32({1, 4, 9}, kDevice), y = make_f32({0, 0, 0}, kDevice);
  const std::vector<Tensor> outputs = {y};
  const std::vector<WarmUpCall> calls = {{.op = "sqrt", .inputs = {x.view()}, .overlap_previous = true}};
  warm_up(calls);
  const Graph graph = capture(stream, [&] {
    dispatch_gpu_op("sqrt", {x}, {}, {.outputs = outputs, .stream = stream, .overlap_previous = true});
  });
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(read_f32(y), (std::vector<float>{1, 2, 3}));
}

TEST_F(OverlapOnGpu, SaysSoInItsReport) {
  const Tensor x = make_f32({1, 2, 3}, kDevice);
  const ResolvedOp plain = resolve("add", {x, x}), overlapped = resolve("add", {x, x}, {}, kOverlap);
  if (device_info(kDevice).driver_version < 12030) GTEST_SKIP() << "needs a driver of CUDA 12.3";
  EXPECT_FALSE(plain.report().kernels.at(0).overlaps_previous);
  EXPECT_TRUE(overlapped.report().kernels.at(0).overlaps_previous);
  EXPECT_NE(plain.report().kernels.at(0).artifact_key, overlapped.report().kernels.at(0).artifact_key);
}

}  // namespace
}  // namespace kiln::test
