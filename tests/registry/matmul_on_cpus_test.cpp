// The kernels of products on the CPU: compiled for CPUs that need not be here, and run by several threads.

#include <cstdio>
#include <cstdlib>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "core/content_hash.hpp"
#include "core/cpu_features.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "tests/support/compiler_test.hpp"
#include "tests/support/guarded_tensor.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

class MatmulOnCpus : public CompilerTest<DeviceType::cpu> {};

/// One product that each of the CPU's kernels serves.
struct Product {
  const char* variant;
  DType dtype;
  std::int64_t m, n, k;
  bool is_turned;  ///< b's rows lie side by side, not its columns
};
constexpr Product kProducts[] = {
    {"stream", DType::f32, 4, 2048, 1000, false},      {"stream", DType::f64, 1, 1000, 2048, false},
    {"inner", DType::f32, 4, 3000, 700, true},         {"inner", DType::f64, 8, 1500, 333, true},
    {"outer", DType::f32, 700, 500, 100, false},       {"outer", DType::f64, 400, 700, 33, true},
    {"blocked", DType::f32, 500, 300, 1100, false},    {"blocked", DType::f32, 1500, 700, 600, true},
    {"blocked_f64", DType::f64, 400, 300, 1100, true}, {"blocked", DType::bf16, 300, 400, 700, false},
    {"blocked", DType::bf16, 300, 401, 701, true},     {"blocked", DType::f16, 300, 400, 700, true},
    {"blocked", DType::fp8e4m3, 1500, 700, 601, true}, {"blocked", DType::fp8e5m2, 300, 401, 701, false},
    {"blocked", DType::i8, 300, 200, 500, false},      {"blocked", DType::i8, 1500, 701, 603, true},
};

PlannedCall planned(const Product& product) {
  return {"matmul",
          {shaped(product.dtype, {product.m, product.k}),
           shaped(product.dtype, {product.k, product.n}, product.is_turned ? Dims{1, product.k} : Dims{product.n, 1})}};
}

/// The kernel on a CPU of these features: none multiplies integers in blocks without AVX2.
std::string variant_on(const Product& product, const Target& target) {
  if (product.dtype == DType::i8 && !has_feature(target.features, "+avx2")) return "tile_i8";
  return product.variant;
}

/// What multiplies on that CPU, as a regular expression.
std::string instruction_on(const Product& product, const Target& target) {
  const auto has = [&](std::string_view feature) { return has_feature(target.features, feature); };
  const bool is_wide = has("+avx512f");
  const std::string suffix = product.dtype == DType::f64 ? "pd" : "ps";
  if (product.dtype == DType::i8 && has("+avx2"))
    return has(is_wide ? "+avx512vnni" : "+avxvnni") ? "vpdpbusd" : "vpmaddwd";
  const bool fits_bf16 = product.dtype == DType::bf16 || is_fp8(product.dtype);
  if (fits_bf16 && has("+avx512bf16")) return "vdpbf16ps";
  return has("+fma") ? "vfmadd[0-9]+" + suffix : "mul" + suffix;
}

std::string text_of(const Product& product) {
  return std::string(product.variant) + " " + std::string(name(product.dtype)) + " " + std::to_string(product.m) +
         " x " + std::to_string(product.n) + " x " + std::to_string(product.k) + (product.is_turned ? " nt" : " nn");
}

TEST_F(MatmulOnCpus, KernelsMultiplyInTheWidestRegistersThereAre) {
  struct Cpu {
    const char* arch;
    std::string features;
    char registers;  ///< xmm, ymm or zmm
  };
  const std::string sse = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt";
  const std::string avx2 = sse + ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe";
  const std::string avx512 = avx2 + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";
  const std::string vnni = avx512 + ",+avx512bf16,+avx512vnni,+avx512vbmi,+avxvnni";
  const Cpu cpus[] = {
      {"nehalem", sse, 'x'},
      {"haswell", avx2, 'y'},
      {"alderlake", avx2 + ",+avxvnni", 'y'},
      {"skylake-avx512", avx512, 'z'},
      {"znver4", vnni, 'z'},
      {"sapphirerapids", vnni + ",+avx512fp16,+amx-tile,+amx-bf16,+amx-int8", 'z'},
      {"graniterapids", vnni + ",+avx512fp16,+avx10.1-512,+amx-tile,+amx-bf16,+amx-int8,+amx-fp16", 'z'},
  };
  for (const Cpu& cpu : cpus)
    for (const Product& product : kProducts) {
      SCOPED_TRACE(text_of(product) + " on " + cpu.arch);
      const Target target{DeviceType::cpu, cpu.arch, cpu.features};
      const PlannedCall call = planned(product);
      ASSERT_EQ(call.variant(target).name, variant_on(product, target));
      // Of several kernels one multiplies; others pack operands or add parts.
      bool multiplies = false;
      for (const CompileRequest& request : call.requests(target)) {
        const std::string text = compiler_for(DeviceType::cpu).emit(request, EmitKind::assembly);
        for (const char wider : {'y', 'z'})
          if (wider > cpu.registers) {
            EXPECT_THAT(text, Not(HasSubstr(std::string("%") + wider + "mm")));
          }
        const std::string instruction = instruction_on(product, target);
        multiplies |= std::regex_search(text, std::regex(instruction + "\t[^\n]*%" + cpu.registers + "mm"));
      }
      EXPECT_TRUE(multiplies);
    }
}

TEST_F(MatmulOnCpus, WhateverTheSidesTheStackHoldsItsPanels) {
  // Few columns of a long k, with outputs that caches do not keep.
  const Product products[] = {{"outer", DType::f64, 200'000, 16, 9000, false},
                              {"outer", DType::f32, 500'000, 16, 40'000, false}};
  for (const Product& product : products) {
    SCOPED_TRACE(text_of(product));
    for (const CompileRequest& request : planned(product).requests(host_cpu_target()))
      EXPECT_FALSE(compiler_for(DeviceType::cpu).compile(request).code.empty());
  }
}

std::size_t size_bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel() * itemsize_bytes(tensor.dtype()));
}

/// A product like this one, of the same kernel.
Product drawn_like(Product product, std::mt19937_64& random) {
  if (product.m > 8) product.m += static_cast<std::int64_t>(random() % 50);
  product.n += static_cast<std::int64_t>(random() % 50);
  product.k += static_cast<std::int64_t>(random() % 50);
  return product;
}

constexpr const char* kDigestsFollow = "digests:\n";

/// Products like those of kProducts, and a digest of each result.
std::string digests(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text = kDigestsFollow;
  for (const Product& like : kProducts) {
    const Product product = drawn_like(like, random);
    const PlannedCall call = planned(product);
    if (call.variant(host_cpu_target()).name != variant_on(product, host_cpu_target())) text += "not a product of ";
    text += text_of(product);
    std::vector<Tensor> inputs;
    for (const TensorView& view : call.inputs) {
      GuardedTensor tensor(view.dtype, view.shape, {view.strides, 0});
      tensor.fill_random({-1, 1}, false, random);
      inputs.push_back(tensor.upload(Device::cpu()));
    }
    // Some launches: how a grid is dealt out to threads depends on how long the last one took.
    std::set<std::string> results;
    for (int i = 0; i < 5; ++i) {
      const Tensor out = dispatch_gpu_op("matmul", inputs);
      synchronize(Stream::default_of(Device::cpu()));
      results.insert(content_hash({out.data_as<std::byte>(), size_bytes_of(out)}).hex());
    }
    if (results.size() > 1) text += " differs from launch to launch";
    text += " " + *results.begin() + "\n";
  }
  return text;
}

/// Threads are counted once in a process, so each number takes one of its own.
TEST_F(MatmulOnCpus, AnyNumberOfThreadsGivesTheSameBits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ScopedVariable seed("KILN_TEST_SEED", std::to_string(sweep_seed()));  // the same in all of them
  std::vector<std::string> printed;
  const auto is_collected = [&](const std::string& text) {
    const std::size_t begin = text.find(kDigestsFollow);  // oneTBB may have said something before
    if (begin != std::string::npos) printed.push_back(text.substr(begin));
    return begin != std::string::npos;
  };
  for (const char* threads : {"1", "2", "3", "8"})
    EXPECT_EXIT(
        {
          setenv("KILN_NUM_THREADS", threads, 1);
          std::fputs(digests(sweep_seed()).c_str(), stderr);
          std::_Exit(0);
        },
        ::testing::ExitedWithCode(0), ::testing::Truly(is_collected));
  ASSERT_EQ(printed.size(), 4u);
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  EXPECT_THAT(printed, Each(printed[0]));
  EXPECT_THAT(printed[0], AllOf(Not(HasSubstr("not a product of")), Not(HasSubstr("differs"))));
}

}  // namespace
}  // namespace kiln::test
