#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/nvrtc_fixture.hpp"

namespace kiln::test {
namespace {

class BoxLoads : public NvrtcCompiler {};

CompileRequest request_for(const std::string& arch) {
  CompileRequest request;
  request.op = "loads";
  request.configuration = "num_warps=4";
  request.target = {DeviceType::cuda, arch, {}};
  return request;
}

/// What a pipeline's loads are apart by, and what is found of it in the PTX.
/// Each table that a kernel's warps take maps from is one that the artifact names, and a symbol of the kernel's.
TEST_F(BoxLoads, FindsLoadsOfSeveralForms) {
  CompileRequest request = request_for("sm_90a");
  request.source = {"test/product.hpp",
                    R"(#include <kiln/tl.hpp>
template <typename T, int M, int N, int K>
KILN_KERNEL void product(const T* a, const T* b, T* out, int64_t n, int64_t k) {
  const auto rows = tl::program_id(0) * M + tl::expand_dims<1>(tl::arange<M>());
  const auto columns = tl::program_id(1) * N + tl::expand_dims<0>(tl::arange<N>());
  auto acc = tl::dot_accumulator<T, M, N>();
  tl::pipeline<4>(
      k / K,
      [&](int64_t step) {
        const auto across = step * K + tl::expand_dims<0>(tl::arange<K>());
        const auto down = step * K + tl::expand_dims<1>(tl::arange<K>());
        return tl::Tuple{tl::deferred_load(a + (rows * k + across)), tl::deferred_load(b + (down * n + columns))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  tl::store(out + (rows * n + columns), tl::cast<T>(acc));
})",
                    {}};
  request.kernel = "product";
  request.num_parameters = 5;
  for (const auto& [m, n, k, num_warps] :
       {std::array{128, 256, 64, 8}, {64, 128, 64, 4}, {128, 128, 128, 4}, {256, 64, 32, 8}}) {
    SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k);
    request.template_arguments = {DType::bf16, std::int64_t{m}, std::int64_t{n}, std::int64_t{k}};
    request.num_warps = num_warps;
    const Artifact artifact = compiler_->compile(request);
    const std::string code(reinterpret_cast<const char*>(artifact.code.data()), artifact.code.size());
    ASSERT_EQ(artifact.box_loads.size(), 2u);
    for (const BoxLoad& load : artifact.box_loads) EXPECT_NE(code.find(load.form.table), std::string::npos);
  }
}

TEST_F(BoxLoads, FindsWhatTheCopyEngineCanLoad) {
  const auto text = [](const std::string& prelude, const std::string& stride) {
    return "#include <kiln/tl.hpp>\nnamespace tl = kiln::tl;\n"
           "template <typename T>\nKILN_KERNEL void sums(const T* x, float* out, tl::int64_t n, int m) {\n"
           "  const auto rows = tl::expand_dims<1>(tl::arange<64>());\n"
           "  const auto columns = tl::expand_dims<0>(tl::arange<64>());\n" +
           prelude +
           "  auto acc = tl::dot_accumulator<T, 64, 64>();\n"
           "  tl::pipeline<3>(n, [&](tl::int64_t step) {\n"
           "    const auto tile = tl::deferred_load(x + step * 64 + (rows * (" +
           stride +
           ") + columns), rows < m);\n    return tl::Tuple{tile, tile};\n  },\n"
           "  [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); });\n"
           "  tl::store(out + (rows * 64 + columns), acc);\n}\n";
  };
  struct Case {
    const char* stride;
    std::string expression;  ///< empty: not one of parameters
    std::string prelude = {};
    const char* arch = "sm_90a";
    bool follows_stores = false;
  };
  for (const Case& c : {Case{"80", "160"},
                        {"n", "p2.s64 1 <<"},
                        {"m", "p3.s32 1 <<"},
                        {"3 * n + 8", "p2.s64 6 * 16 +"},
                        {"n / 2", "p2.s64 2 / 2 *"},
                        {"n / 8 * 2", "p2.s64 8 / 4 *"},
                        {"tl::program_id(0) * n", ""},
                        {"(step < 4 ? n : 2 * n)", ""},
                        {"(step + 8) * 8", ""},
                        {"tl::load(out + 4) > 0 ? n : 64", ""},
                        {"n", "p2.s64 1 <<", "  tl::store(out, 1.0f);\n", "sm_90a", true},
                        {"n", "", {}, "sm_80"}}) {
    SCOPED_TRACE(std::string(c.stride) + " for " + c.arch);
    CompileRequest request = request_for(c.arch);
    request.source = {"test/sums.hpp", text(c.prelude, c.stride), {}};
    request.kernel = "sums";
    request.template_arguments = {DType::bf16};
    request.num_parameters = 4;
    const std::vector<BoxLoad> loads = compiler_->compile(request).box_loads;
    if (c.expression.empty()) {
      EXPECT_TRUE(loads.empty()) << loads.front().line_bytes.text();
    } else {
      ASSERT_EQ(loads.size(), 1u);
      EXPECT_EQ(loads[0].form, (BoxForm{loads[0].form.table, 64, 64, 2}));
      EXPECT_NE(loads[0].form.table.find("box_maps"), std::string::npos) << loads[0].form.table;
      EXPECT_EQ(loads[0].follows_stores, c.follows_stores);
      const std::int64_t n = 24;
      const std::int32_t m = 40;
      const auto parameter = [&](int index) {
        return index == 2   ? std::as_bytes(std::span(&n, 1))
               : index == 3 ? std::as_bytes(std::span(&m, 1))
                            : std::span<const std::byte>();
      };
      EXPECT_EQ(loads[0].line_bytes.evaluate(parameter), ParameterExpression(c.expression).evaluate(parameter))
          << loads[0].line_bytes.text();
    }
  }
}

/// All of a kernel is looked through: its second pipeline, and what it stores before it comes back to the first.
TEST_F(BoxLoads, FindsLoadsOfSeveralPipelines) {
  CompileRequest request = request_for("sm_90a");
  request.source = {"test/twice.hpp",
                    R"(#include <kiln/tl.hpp>
template <typename T, bool STORES>
KILN_KERNEL void twice(const T* x, float* out, int64_t n, int64_t m) {
  const auto rows = tl::expand_dims<1>(tl::arange<64>());
  const auto columns = tl::expand_dims<0>(tl::arange<64>());
  const auto wide = tl::expand_dims<0>(tl::arange<128>());
  auto acc = tl::dot_accumulator<T, 64, 64>();
  auto other = tl::dot_accumulator<T, 64, 128>();
  for (int64_t round = 0; round < m; ++round) {
    const auto tile = tl::deferred_load(x + (rows * n + columns));
    tl::pipeline<3>(
        n, [&](int64_t step) { return tl::Tuple{tile, tile}; },
        [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); });
    tl::pipeline<3>(
        n, [&](int64_t step) { return tl::Tuple{tile, tl::deferred_load(x + (rows * m + wide))}; },
        [&](const auto& a, const auto& b) { other = tl::dot(a, b, other); });
    if constexpr (STORES) tl::store(out + (round * 4096 + rows * 64 + columns), acc);
  }
  tl::store(out + (rows * 128 + wide), other);
})",
                    {}};
  request.kernel = "twice";
  request.num_parameters = 4;
  for (const bool stores : {false, true}) {
    request.template_arguments = {DType::bf16, stores};
    const std::vector<BoxLoad> loads = compiler_->compile(request).box_loads;
    ASSERT_EQ(loads.size(), 2u);
    for (const BoxLoad& load : loads) {
      EXPECT_EQ(load.form, (BoxForm{load.form.table, 64, 64, 2}));
      EXPECT_EQ(load.follows_stores, stores);
    }
  }
}

/// Boxes of float are rounded where wgmma alone reads them.
TEST_F(BoxLoads, SaysWhichBoxesAreRounded) {
  struct Case {
    DType dtype;
    const char* body;
    int elements;
    bool rounds;
  };
  constexpr const char* kTf32 = "acc = tl::dot<tl::DotPrecision::tf32>(a, b, acc);";
  for (const Case& c : {Case{DType::f32, kTf32, 32, true},
                        {DType::f32, "acc = tl::dot<tl::DotPrecision::tf32>(a, b, acc) + tl::sum(a);", 32, false},
                        {DType::f32, "other = tl::dot(a, b, other);", 32, false},
                        {DType::bf16, kTf32, 64, false},
                        {DType::fp8e5m2, kTf32, 64, false},
                        {DType::u8, kTf32, 64, false}}) {
    SCOPED_TRACE(std::string(name(c.dtype)) + ": " + c.body);
    CompileRequest request = request_for("sm_90a");
    request.source = {"test/sums.hpp",
                      std::string("#include <kiln/tl.hpp>\ntemplate <typename T>\n"
                                  "KILN_KERNEL void sums(const T* x, tl::dot_sum_t<T>* out, int64_t n) {\n"
                                  "  const auto rows = tl::expand_dims<1>(tl::arange<64>());\n"
                                  "  const auto columns = tl::expand_dims<0>(tl::arange<64>());\n"
                                  "  auto acc = tl::dot_accumulator<T, 64, 64, tl::DotPrecision::tf32>();\n"
                                  "  auto other = tl::dot_accumulator<T, 64, 64>();\n"
                                  "  tl::pipeline<3>(n, [&](int64_t step) {\n"
                                  "    const auto tile = x + step * 64 + (rows * n + columns);\n"
                                  "    return tl::Tuple{tl::deferred_load(tile), tl::trans(tl::deferred_load(tile))};\n"
                                  "  }, [&](const auto& a, const auto& b) { ") +
                          c.body +
                          " });\n  tl::store(out + (rows * 64 + columns), acc);\n"
                          "  tl::store(out + 4096 + (rows * 64 + columns), other);\n}\n",
                      {}};
    request.kernel = "sums";
    request.template_arguments = {c.dtype};
    request.num_parameters = 3;
    const std::vector<BoxLoad> loads = compiler_->compile(request).box_loads;
    ASSERT_EQ(loads.size(), 1u);
    const BoxForm& form = loads[0].form;
    EXPECT_EQ(form,
              (BoxForm{form.table, 64, c.elements, static_cast<std::int32_t>(itemsize_bytes(c.dtype)), c.rounds}));
  }
}

}  // namespace
}  // namespace kiln::test
