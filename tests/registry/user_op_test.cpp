#include <filesystem>
#include <fstream>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_op.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

constexpr const char* kHypot2 = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void hypot2_kernel(const T* x, const T* y, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto a = tl::load(x + offsets, mask);
  auto b = tl::load(y + offsets, mask);
  tl::store(out + offsets, a * a + b * b, mask);
}
)";

ElementwiseKernel hypot2(const std::string& name) {
  return {.name = name,
          .doc = "x^2 + y^2",
          .source = {"hypot2.hpp", kHypot2, {}},
          .kernel = "hypot2_kernel",
          .num_inputs = 2,
          .dtypes = {DType::f32, DType::f64}};
}

TEST(UserOpTest, RunsOnEveryDevice) {
  register_elementwise_kernel(hypot2("user_hypot2"));
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  for (const Device device : devices) {
    std::vector<float> x, y, expected;
    for (int i = 0; i < 1000; ++i) {
      x.push_back(static_cast<float>(i));
      y.push_back(static_cast<float>(3 * i));
      expected.push_back(static_cast<float>(10 * i * i));
    }
    const Tensor sum = dispatch_gpu_op("user_hypot2", {make_f32(x, device), make_f32(y, device)});
    EXPECT_EQ(read_f32(sum), expected) << to_string(device);
    EXPECT_EQ(read_f32(dispatch_gpu_op("user_hypot2", {make_f32({}, device), make_f32({}, device)})).size(), 0u);
    for (const Config& config :
         Registry::process().get("user_hypot2").variants[0].space({device.type, "sm_90a", ""}).enumerate())
      EXPECT_EQ(
          read_f32(dispatch_gpu_op("user_hypot2", {make_f32(x, device), make_f32(y, device)}, {}, {.config = &config})),
          expected)
          << to_string(device) << " " << to_string(config);
  }
}

TEST(UserOpTest, ReadsItsKernelFromAFile) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("kiln-user-kernel-" + std::to_string(::getpid()) + ".hpp");
  std::ofstream(path) << kHypot2;
  ElementwiseKernel kernel = hypot2("user_hypot2_from_file");
  kernel.source = read_kernel_source(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(kernel.source.text, kHypot2);
  register_elementwise_kernel(kernel);
  for (const Device device : available_devices())
    EXPECT_EQ(read_f32(dispatch_gpu_op("user_hypot2_from_file", {make_f32({3}, device), make_f32({4}, device)})),
              std::vector<float>{25});
  EXPECT_THAT(usage_message([&] { read_kernel_source(path.string()); }), HasSubstr(path.string()));
}

TEST(UserOpTest, ReadsHeadersBesideTheFile) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kiln-user-headers-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "parts");
  std::string kernel_text = kHypot2;
  kernel_text.insert(0, "#include \"parts/square.hpp\"\n");
  kernel_text.replace(kernel_text.find("a * a"), 5, "square(a)");
  std::ofstream(folder / "hypot2.hpp") << kernel_text;
  std::ofstream(folder / "parts/square.hpp") << "#pragma once\n#include \"deeper.hpp\"\n";
  std::ofstream(folder / "parts/deeper.hpp")
      << "#pragma once\n#include <kiln/tl.hpp>\ntemplate <typename T> KILN_DEVICE T square(T x) { return x * x; }\n";
  ElementwiseKernel kernel = hypot2("user_hypot2_with_headers");
  kernel.source = read_kernel_source((folder / "hypot2.hpp").string());
  std::filesystem::remove_all(folder);
  ASSERT_EQ(kernel.source.headers.size(), 2u);
  register_elementwise_kernel(kernel);
  for (const Device device : available_devices())
    EXPECT_EQ(read_f32(dispatch_gpu_op("user_hypot2_with_headers", {make_f32({3}, device), make_f32({4}, device)})),
              std::vector<float>{25});
}

TEST(UserOpTest, RefusesBadRegistrations) {
  ElementwiseKernel kernel = hypot2("user_refused");
  kernel.num_inputs = 0;
  EXPECT_THAT(usage_message([&] { register_elementwise_kernel(kernel); }), Says("user_refused", "num_inputs is 0"));
  kernel.num_inputs = 2;
  kernel.name = "add";
  EXPECT_THAT(usage_message([&] { register_elementwise_kernel(kernel); }), Says("'add'", "already registered"));
  kernel.name = "";
  EXPECT_THAT(usage_message([&] { register_elementwise_kernel(kernel); }), HasSubstr("needs a name"));
  kernel.name = "two words";
  EXPECT_THAT(usage_message([&] { register_elementwise_kernel(kernel); }), HasSubstr("'two words'"));
  kernel.name = "user_refused";
  kernel.source.text.clear();
  EXPECT_THAT(usage_message([&] { register_elementwise_kernel(kernel); }), Says("user_refused", "kernel source"));
  EXPECT_EQ(Registry::process().find("user_refused"), nullptr);
}

TEST(UserOpTest, RefusesTensorsItsKernelCannotRead) {
  register_elementwise_kernel(hypot2("user_hypot2_strict"));
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  const Tensor x = make_f32({1, 2, 3, 4}), y = make_f32({1, 2, 3});
  EXPECT_THAT(usage_message([&] { dispatch_gpu_op("user_hypot2_strict", {x, y}); }), Says("'in1'", "(3)", "(4)"));
  const Tensor half = view_of(x, {2}, {2});
  EXPECT_THAT(usage_message([&] { dispatch_gpu_op("user_hypot2_strict", {half, half}); }),
              Says("contiguous", "user_hypot2_strict"));
  const Tensor integers = empty({4}, DType::i32, Device::cpu());
  EXPECT_THAT(usage_message([&] { dispatch_gpu_op("user_hypot2_strict", {integers, integers}); }),
              Says("i32", "f32, f64"));
  EXPECT_THAT(usage_message([&] { dispatch_gpu_op("user_hypot2_strict", {x, empty({4}, DType::f64, Device::cpu())}); }),
              Says("f64", "f32", "'in1'"));
}

TEST(UserOpTest, ReportsAKernelThatDoesNotCompile) {
  ElementwiseKernel kernel = hypot2("user_broken");
  kernel.source.text =
      "#include <kiln/tl.hpp>\ntemplate <typename T, int BLOCK_SIZE>\nKILN_KERNEL void hypot2_kernel(const T* x, const "
      "T* y, T* out, kiln::tl::int64_t n) {\n  no_such_function(x);\n}\n";
  register_elementwise_kernel(kernel);
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  for (const Device device : devices) {
    const Tensor x = make_f32({1, 2}, device);
    for (int attempt = 0; attempt < 2; ++attempt) {  // a failure is not cached as a success, and not sticky either
      try {
        dispatch_gpu_op("user_broken", {x, x});
        ADD_FAILURE() << "no error on " << to_string(device);
      } catch (const CompileError& error) {
        EXPECT_EQ(error.op(), "user_broken");
        EXPECT_THAT(error.configuration(), HasSubstr("BLOCK_SIZE="));
        EXPECT_THAT(error.log(),
                    Says("hypot2.hpp", "no_such_function", device.is_cuda() ? "hypot2.hpp(4)" : "hypot2.hpp:4:"));
      }
    }
  }
}

TEST(UserOpTest, RefusesAKernelWithAnotherNumberOfParameters) {
  for (const int num_inputs : {1, 3}) {
    ElementwiseKernel kernel = hypot2("user_arity_" + std::to_string(num_inputs));
    kernel.num_inputs = num_inputs;
    register_elementwise_kernel(kernel);
    for (const Device device : available_devices()) {
      const std::vector<Tensor> inputs(static_cast<std::size_t>(num_inputs), make_f32({1, 2}, device));
      SCOPED_TRACE(to_string(device) + " with " + std::to_string(num_inputs));
      EXPECT_THAT(compile_log([&] { dispatch_gpu_op(kernel.name, inputs); }),
                  HasSubstr("the op launches this kernel with " + std::to_string(num_inputs + 2) + " parameters"));
    }
  }
}

}  // namespace
}  // namespace kiln::test
