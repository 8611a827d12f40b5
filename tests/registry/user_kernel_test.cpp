#include "registry/user_ops/user_kernel.hpp"

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/tuning/tuning.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/launched_kernel.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/pipelined_kernel.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

using UserKernelTest = DevicesTest;

constexpr const char* kScale = R"(#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE, bool NEGATE = false>
KILN_KERNEL void scale(const T* x, T* out, tl::int64_t n, float alpha, T beta = 0) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto y = tl::load(x + offsets, mask) * alpha + beta;
  tl::store(out + offsets, tl::cast<T>(NEGATE ? -y : y), mask);
}
)";

std::int64_t blocks(std::int64_t n, std::int64_t size) {
  return (n + size - 1) / size;
}

UserKernel scale(const std::string& name) {
  UserKernel kernel;
  kernel.name = name;
  kernel.doc = "x * alpha + beta";
  kernel.source = {"scale.hpp", kScale, {}};
  kernel.tunables = {{"BLOCK_SIZE", {256, 128, 512}}, {"num_warps", {4, 8}}};
  kernel.constraints = {{"BLOCK_SIZE >= 32 * num_warps",
                         [](const Config& config) { return config.at("BLOCK_SIZE") >= 32 * config.at("num_warps"); }}};
  kernel.grid = [](const OpCall& call, const Config& config) {
    return std::array{blocks(call.attributes.get_int("n"), config.at("BLOCK_SIZE")), std::int64_t{1}, std::int64_t{1}};
  };
  return kernel;
}

UserKernel with_text(const std::string& name, const std::string& declaration) {
  UserKernel kernel = scale(name);
  kernel.source.text = "#include <kiln/tl.hpp>\n" + declaration + " {}\n";
  kernel.tunables.clear();
  kernel.constraints.clear();
  kernel.grid = {};
  return kernel;
}

TEST(UserKernelSpec, FollowsTheKernelsDeclaration) {
  const OpSpec spec = kernel_op(scale("spec_scale"));
  ASSERT_EQ(spec.inputs.size(), 2u);
  EXPECT_EQ(spec.inputs[0].name, "x");
  EXPECT_FALSE(spec.inputs[0].mutated);
  EXPECT_EQ(spec.inputs[1].name, "out");
  EXPECT_TRUE(spec.inputs[1].mutated);
  EXPECT_TRUE(spec.outputs.empty());
  std::vector<std::string> attributes;
  for (const AttributeSpec& attribute : spec.attributes)
    attributes.push_back(attribute.name + (attribute.required ? "!" : "") + (attribute.decides_speed ? "" : "~"));
  EXPECT_EQ(attributes, (std::vector<std::string>{"T~", "NEGATE", "n!", "alpha!~", "beta~", "grid"}));
  EXPECT_EQ(spec.variants[0].default_config({{}, {}, {}}, {DeviceType::cpu, "", ""}),
            (Config{{"BLOCK_SIZE", 256}, {"num_warps", 4}}));
}

UserKernel copied_scale(std::int64_t copy_warps) {
  UserKernel kernel = scale("copied_scale");
  kernel.tunables.push_back({"copy_warps", {copy_warps}});
  return kernel;
}

TEST(UserKernelSpec, WarpsThatCopyAreATunableOfOneGpu) {
  const auto copy_warps = [](std::int64_t wanted, const Target& target) {
    const Example example{{{DType::f32, {3}}, {DType::f32, {3}}}, {{"n", 3}, {"alpha", 2.0}}};
    return kernels_of_all_variants(kernel_op(copied_scale(wanted)), example, target).at(0).request.copy_warps;
  };
  EXPECT_EQ(copy_warps(0, parse_cuda_target("sm_90a")), 0);
  EXPECT_EQ(copy_warps(4, parse_cuda_target("sm_90a")), 4);
  EXPECT_EQ(copy_warps(4, parse_cuda_target("sm_80")), 0);
  Registry::process().register_op(kernel_op(copied_scale(3)));
  const Tensor x = make_f32({1, 2, 3}, Device::cpu());
  EXPECT_THAT(usage_message([&] { dispatch_gpu_op("copied_scale", {x, x}, {{"n", 3}, {"alpha", 2.0}}); }),
              Says("copied_scale", "copy_warps is 3 beside num_warps=4"));
}

TEST_F(UserKernelTest, RunsWithItsOwnParameters) {
  Registry::process().register_op(kernel_op(scale("user_scale")));
  for (const Device device : devices_) {
    const Tensor x = make_f32({1, 2, 3}, device), out = make_f32({-7, -7, -7, -7}, device);
    EXPECT_EQ(dispatch_gpu_op("user_scale", {x, out}, {{"n", 3}, {"alpha", 2.0}}).data(), out.data());
    EXPECT_EQ(read_f32(out), (std::vector<float>{2, 4, 6, -7}));
    const Config config{{"BLOCK_SIZE", 128}};
    dispatch_gpu_op("user_scale", {x, out}, {{"n", 2}, {"alpha", 3}, {"beta", 0.5}, {"NEGATE", true}},
                    {.config = &config});
    EXPECT_EQ(read_f32(out), (std::vector<float>{-3.5, -6.5, 6, -7}));
    dispatch_gpu_op("user_scale", {out, out}, {{"n", 4}, {"alpha", 2.0}});  // the author answers for overlap
    EXPECT_EQ(read_f32(out), (std::vector<float>{-7, -13, 12, -14}));
    dispatch_gpu_op("user_scale", {x, out}, {{"n", 0}, {"alpha", 2.0}});  // an empty grid
    dispatch_gpu_op("user_scale", {x, out}, {{"n", 3}, {"alpha", 2.0}, {"grid", std::vector<std::int64_t>{0}}});
    EXPECT_EQ(read_f32(out), (std::vector<float>{-7, -13, 12, -14}));
    dispatch_gpu_op("user_scale", {x, out}, {{"n", 3}, {"alpha", 1.0}, {"T", std::string("float32")}});
    EXPECT_EQ(read_f32(out), (std::vector<float>{1, 2, 3, -14}));
  }
}

TEST_F(UserKernelTest, PassesNumbersOfEveryDtype) {
  for (const DType dtype : kAllDTypes) {
    if (is_fp8(dtype)) continue;
    const std::string type(info(dtype).tl_name);
    const std::string op = "user_fill_" + std::string(name(dtype));
    UserKernel kernel = scale(op);
    kernel.source.text = "#include <kiln/tl.hpp>\ntemplate <int BLOCK_SIZE> KILN_KERNEL void fill(" + type + "* out, " +
                         type + " value, short small, bool twice) {\n  auto offsets = tl::arange<BLOCK_SIZE>();\n" +
                         "  tl::store(out + offsets, tl::full<" + type +
                         ", BLOCK_SIZE>(value), offsets < small * (twice ? 2 : 1));\n}\n";
    kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{1, 1, 1}; };
    Registry::process().register_op(kernel_op(kernel));
    for (const Device device : devices_) {
      const Tensor out = empty({4}, dtype, device);
      Attributes attributes{{"value", 1}, {"small", 1}, {"twice", true}};
      if (dtype == DType::bool_) attributes.set("value", true);
      memset_bytes(out, 0, Stream::default_of(device));
      dispatch_gpu_op(op, {out}, attributes);
      synchronize(Stream::default_of(device));
      const Tensor as_float = dispatch_gpu_op("cast", {out}, {{"dtype", DType::f32}});
      EXPECT_EQ(read_f32(as_float), (std::vector<float>{1, 1, 0, 0})) << name(dtype);
    }
  }
}

TEST_F(UserKernelTest, RefusesCallsThatDoNotFitBeforeAnythingRuns) {
  Registry::process().register_op(kernel_op(scale("user_strict")));
  const Tensor x = make_f32({1, 2}), out = make_f32({0, 0});
  const auto call = [](const Tensor& a, const Tensor& b, const Attributes& attributes) {
    return usage_error([&] { dispatch_gpu_op("user_strict", {a, b}, attributes); });
  };
  const Attributes good{{"n", 2}, {"alpha", 1.0}};
  EXPECT_THAT(call(x, empty({2}, DType::f64, Device::cpu()), good),
              Says("type: ", "T is f32 by tensor 'x', but tensor 'out' is f64"));
  EXPECT_THAT(call(x, out, {{"n", 2}, {"alpha", 1.0}, {"T", DType::f64}}),
              Says("type: ", "T is f64 as given, but tensor 'x' is f32"));
  EXPECT_THAT(call(x, out, {{"n", 2}, {"alpha", 1.0}, {"T", std::string("flaot32")}}),
              Says("value: ", "flaot32", "float32"));
  EXPECT_THAT(call(x, out, {{"alpha", 1.0}}), Says("value: ", "'n'"));
  EXPECT_THAT(call(x, out, {{"n", 2}, {"alpha", 1.0}, {"nn", 2}}), Says("'nn'", "'n'"));
  EXPECT_THAT(call(x, out, {{"n", 2.5}, {"alpha", 1.0}}), Says("type: ", "'n'"));
  EXPECT_THAT(call(x, out, {{"n", 2}, {"alpha", 1.0}, {"beta", std::string("x")}}),
              Says("type: ", "'beta' is a f32, and 'x' is no number"));
  EXPECT_THAT(call(x, out, {{"n", 2}, {"alpha", 1.0}, {"grid", std::vector<std::int64_t>{1, 1, 1, 1}}}),
              HasSubstr("1 to 3"));
  EXPECT_THAT(call(x, out, {{"n", 2}, {"alpha", 1.0}, {"grid", std::vector<std::int64_t>{-1}}}),
              HasSubstr("(-1, 1, 1)"));
  const Config config{{"BLOCK_SIZE", 96}};
  EXPECT_THAT(usage_error([&] { dispatch_gpu_op("user_strict", {x, out}, good, {.config = &config}); }),
              HasSubstr("legal values are 256, 128, 512"));
  EXPECT_THAT(usage_error([&] { dispatch_gpu_op("user_strict", {x}, good); }), HasSubstr("takes 2 inputs (x, out)"));
  EXPECT_EQ(read_f32(out), (std::vector<float>{0, 0}));

  Registry::process().register_op(kernel_op(
      with_text("user_narrow", "template <int N> KILN_KERNEL void k(float* out, tl::uint8_t small, double wide)")));
  EXPECT_THAT(usage_error([&] {
                dispatch_gpu_op("user_narrow", {out},
                                {{"N", 1}, {"small", 256}, {"wide", 1}, {"grid", std::vector<std::int64_t>{1}}});
              }),
              Says("value: ", "'small' is a u8, and 256 does not fit", "0 to 255"));
  EXPECT_THAT(usage_error([&] { dispatch_gpu_op("user_narrow", {out}, {{"N", 1}, {"small", 1}, {"wide", 1}}); }),
              Says("value: ", "'grid'"));
}

OpSpec outer_spec(const std::string& name) {
  OpSpec spec;
  spec.name = name;
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", ""}};
  spec.attributes = {{"alpha", 1.0, false, ""}};
  spec.dtypes = {DType::f32};
  spec.infer = [](std::span<const TensorView> inputs, const Attributes&) {
    return std::vector<TensorMeta>{{inputs[0].dtype, inputs[0].shape}};
  };
  return spec;
}

constexpr const char* kStridedCopy = R"(#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void strided_copy(const T* x, T* out, tl::int64_t n, tl::int64_t stride = 1) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets * stride, mask), mask);
}
)";

UserKernel strided_copy(const std::string& name, const std::vector<std::string>& strided) {
  UserKernel kernel;
  kernel.name = name;
  kernel.source = {"strided_copy.hpp", kStridedCopy, {}};
  kernel.tunables = {{"BLOCK_SIZE", {64}}};
  kernel.grid = [](const OpCall& call, const Config&) {
    return std::array<std::int64_t, 3>{blocks(call.attributes.get_int("n"), 64), 1, 1};
  };
  kernel.strided = strided;
  return kernel;
}

TEST_F(UserKernelTest, RefusesStridesThatTheKernelDoesNotTake) {
  Registry::process().register_op(kernel_op(strided_copy("user_dense", {})));
  Registry::process().register_op(kernel_op(strided_copy("user_strided", {"x"})));
  for (const Device device : devices_) {
    const Tensor memory = make_f32({0, 1, 2, 3, 4, 5}, device), out = make_f32({-1, -1, -1}, device);
    const Attributes three{{"n", 3}};
    struct Case {
      const char* name;
      Tensor x;
    };
    for (const auto& [name, x] :
         {Case{"every other", view_of(memory, {3}, {2})}, Case{"transposed", view_of(memory, {3, 2}, {1, 3})},
          Case{"broadcast", view_of(memory, {3, 2}, {1, 0})}, Case{"backwards", view_of(memory, {3}, {-1}, 2)},
          Case{"rows apart", view_of(memory, {2, 2}, {3, 1})}}) {
      SCOPED_TRACE(name);
      EXPECT_THAT(usage_error([&] { dispatch_gpu_op("user_dense", {x, out}, three); }),
                  Says("value: ", "'x' is not contiguous", "contiguous()", "strided=['x']"));
      if (std::string(name) == "broadcast") continue;  // what overlaps itself is not written by any op
      // What is written is not in the declaration of the one that takes the input's.
      for (const char* op : {"user_dense", "user_strided"})
        EXPECT_THAT(usage_error([&] { dispatch_gpu_op(op, {out, x}, three); }),
                    Says("'out' is not contiguous", "strided=['out']"));
    }
    EXPECT_EQ(read_f32(out), (std::vector<float>{-1, -1, -1}));

    // Strides that are never used: of extents of 1, and of no elements.
    dispatch_gpu_op("user_dense", {view_of(memory, {1, 3, 1}, {77, 1, -5}), out}, three);
    EXPECT_EQ(read_f32(out), (std::vector<float>{0, 1, 2}));
    dispatch_gpu_op("user_dense", {view_of(memory, {0, 3}, {9, 2}), out}, {{"n", 0}});
    dispatch_gpu_op("user_strided", {view_of(memory, {3}, {2}), out}, {{"n", 3}, {"stride", 2}});
    EXPECT_EQ(read_f32(out), (std::vector<float>{0, 2, 4}));
  }
  EXPECT_THAT(usage_error([] { kernel_op(strided_copy("k", {"y"})); }), Says("value: ", "'y'", "(x, out)"));
}

TEST_F(UserKernelTest, StridesOfAnOpWithOutputsAreRefusedToo) {
  for (const bool is_declared : {false, true}) {
    const std::string name = is_declared ? "user_outer_strided" : "user_outer_dense";
    OpSpec spec = outer_spec(name);
    spec.inputs[0].name = "input";
    spec.attributes.clear();
    const UserKernel kernel =
        strided_copy(name, is_declared ? std::vector<std::string>{"x"} : std::vector<std::string>{});
    spec.variants.push_back(kernel_variant(spec, kernel, [](const OpCall& call, const Config&, const Target&) {
      LaunchValues launch{.grid = {blocks(call.outputs[0].numel(), 64), 1, 1}};
      launch.values = {{"stride", call.inputs[0].strides[0]}};
      launch.tensors = {{"x", "input"}};
      return launch;
    }));
    Registry::process().register_op(std::move(spec));
  }
  for (const Device device : devices_) {
    const Tensor memory = make_f32({0, 1, 2, 3, 4, 5}, device), x = view_of(memory, {3}, {2});
    EXPECT_THAT(usage_error([&] { dispatch_gpu_op("user_outer_dense", {x}); }),
                Says("'input' is not contiguous", "strided=['x']"));
    EXPECT_EQ(read_f32(dispatch_gpu_op("user_outer_strided", {x})), (std::vector<float>{0, 2, 4}));
    const Tensor out = view_of(make_f32({7, 7, 7, 7, 7, 7}, device), {3}, {2});
    const Tensor outputs[] = {out};
    EXPECT_THAT(usage_error([&] { dispatch_gpu_op("user_outer_strided", {x}, {}, {.outputs = outputs}); }),
                HasSubstr("'out' is not contiguous"));
  }
}

TEST_F(UserKernelTest, PassesIntegersOfAll64Bits) {
  UserKernel kernel = scale("user_unsigned");
  kernel.source.text =
      "#include <kiln/tl.hpp>\ntemplate <int BLOCK_SIZE> KILN_KERNEL void k(tl::uint64_t* out, tl::uint64_t value, "
      "tl::uint64_t more = 0xFFFFFFFFFFFFFFFFu) {\n  auto i = tl::arange<BLOCK_SIZE>();\n  tl::store(out + i, "
      "tl::full<tl::uint64_t, BLOCK_SIZE>(value), i < 1);\n  tl::store(out + i, tl::full<tl::uint64_t, "
      "BLOCK_SIZE>(more), (i >= 1) & (i < 2));\n}\n";
  kernel.tunables = {{"BLOCK_SIZE", {64}}};
  kernel.constraints.clear();
  kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{1, 1, 1}; };
  Registry::process().register_op(kernel_op(kernel));
  for (const Device device : devices_)
    for (const std::uint64_t value : {std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{5}}) {
      const Tensor out = empty({2}, DType::u64, device);
      dispatch_gpu_op("user_unsigned", {out}, {{"value", value}});
      synchronize(Stream::default_of(device));
      const Tensor host = to_device(out, Device::cpu());
      EXPECT_EQ(host.data_as<std::uint64_t>()[0], value);
      EXPECT_EQ(host.data_as<std::uint64_t>()[1], ~std::uint64_t{0});
    }
  Registry::process().register_op(kernel_op(scale("user_signed")));
  const Tensor x = make_f32({1, 2}), out = make_f32({0, 0});
  EXPECT_THAT(
      usage_error([&] { dispatch_gpu_op("user_signed", {x, out}, {{"n", ~std::uint64_t{0}}, {"alpha", 1.0}}); }),
      Says("value: ", "'n' = 18446744073709551615 does not fit"));
}

TEST(UserKernelSpec, TakesKernelsThatWriteThroughAddresses) {
  const OpSpec spec = kernel_op(
      with_text("k", "template <int N> KILN_KERNEL void k(const tl::int64_t* addresses, const float* x, int64_t n)"));
  EXPECT_TRUE(spec.inputs[0].mutated) << "it stands for what lies at the addresses";
  EXPECT_FALSE(spec.inputs[1].mutated);
  const OpSpec other =
      kernel_op(with_text("k", "template <int N> KILN_KERNEL void k(const uint64_t* addresses, float* out)"));
  EXPECT_FALSE(other.inputs[0].mutated);
  EXPECT_TRUE(other.inputs[1].mutated);
}

TEST_F(UserKernelTest, WritesThroughAddresses) {
  UserKernel kernel = with_text("user_addressed", "");
  kernel.source.text =
      "#include <kiln/tl.hpp>\n"
      "template <int N>\n"
      "KILN_KERNEL void user_addressed(const tl::int64_t* outputs, int64_t n) {\n"
      "  tl::store(reinterpret_cast<float*>(tl::load(outputs + tl::program_id(0))) + tl::arange<N>(), 2.5f);\n"
      "}\n";
  kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{2, 1, 1}; };
  Registry::process().register_op(kernel_op(kernel));
  for (const Device device : devices_) {
    const Tensor first = to_device(make_f32({0, 0}), device), second = to_device(make_f32({0, 0}), device);
    const std::vector<std::int64_t> addresses{reinterpret_cast<std::int64_t>(first.data()),
                                              reinterpret_cast<std::int64_t>(second.data())};
    dispatch_gpu_op("user_addressed", {tensor_of(DType::i64, addresses, device)},
                    {{"N", std::int64_t{2}}, {"n", std::int64_t{2}}});
    synchronize(Stream::default_of(device));
    EXPECT_EQ(read_f32(first), (std::vector<float>{2.5f, 2.5f}));
    EXPECT_EQ(read_f32(second), (std::vector<float>{2.5f, 2.5f}));
  }
}

TEST(UserKernelSpec, RefusesKernelsThatNoCallFits) {
  const auto refusal = [](const UserKernel& kernel) { return usage_error([&] { kernel_op(kernel); }); };
  EXPECT_THAT(refusal(with_text("k", "template <int N> KILN_KERNEL void k(const float* x)")),
              Says("value: ", "writes nothing, for every pointer it takes is const: declare its outputs T*"));
  EXPECT_THAT(refusal(with_text("k", "template <typename... T> KILN_KERNEL void k(float* x)")),
              HasSubstr("not_implemented: "));
  EXPECT_THAT(refusal(with_text("k", "template <int N> KILN_KERNEL void k(float* x, index_t n)")),
              Says("not_implemented: ", "'n' has type 'index_t'"));
  EXPECT_THAT(refusal(with_text("k", "template <int N> KILN_KERNEL void k(float** x)")), HasSubstr("float*"));
  EXPECT_THAT(refusal(with_text("k", "template <int N> KILN_KERNEL void k(float* x, int grid)")),
              HasSubstr("named 'grid'"));
  std::string many = "template <int N> KILN_KERNEL void k(float* x";
  for (int i = 0; i < kMaxArguments; ++i) many.append(", int n").append(std::to_string(i));
  EXPECT_THAT(refusal(with_text("k", many.append(")"))), Says("not_implemented: ", "25 parameters; at most 24"));
  UserKernel kernel = scale("k");
  kernel.tunables[0].name = "BLOCKSIZE";
  EXPECT_THAT(refusal(kernel), Says("'BLOCKSIZE'", "did you mean 'BLOCK_SIZE'"));
  kernel = scale("k");
  kernel.tunables[0].values = {32};
  EXPECT_THAT(refusal(kernel), HasSubstr("no config meets all constraints"));
  kernel = scale("k");
  kernel.defaults = [](const Target&) { return Config{{"BLOCK_SIZE", 64}}; };
  EXPECT_THAT(refusal(kernel), Says("BLOCK_SIZE=64", "BLOCK_SIZE >= 32 * num_warps"));
  kernel.defaults = [](const Target&) { return Config{{"BLOCK", 64}}; };
  EXPECT_THAT(refusal(kernel), HasSubstr("of no tunable"));
  kernel = scale("k");
  kernel.kernel = "scael";
  EXPECT_THAT(refusal(kernel), Says("scale.hpp", "did you mean 'scale'"));
}

TEST_F(UserKernelTest, AWrongGuessIsACompileError) {
  // Text says float and the compiler half of that: a launch by the text would read past the ends.
  UserKernel kernel =
      with_text("user_guessed",
                "namespace mine {\nusing float16 = float;\ntemplate <int N> KILN_KERNEL void k(float16* "
                "out) { out[0] = 0; }\n}\nnamespace unused");
  kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{1, 1, 1}; };
  Registry::process().register_op(kernel_op(kernel));
  for (const Device device : devices_) {
    const Tensor out = empty({4}, DType::f16, device);
    SCOPED_TRACE(to_string(device));
    EXPECT_THAT(compile_log([&] { dispatch_gpu_op("user_guessed", {out}, {{"N", 1}}); }),
                HasSubstr("parameter 1 of the kernel is passed as kiln::tl::float16*"));
  }
}

TEST_F(UserKernelTest, IsTuned) {
  Registry::process().register_op(kernel_op(scale("user_tuned_scale")));
  for (const Device device : devices_) {
    const Tensor x = make_f32(std::vector<float>(1000, 2.0f), device);
    const Tensor out = make_f32(std::vector<float>(1000, -1.0f), device);
    TuneOptions options;
    options.budget_s = 60;  // a candidate is cut off by its share of it, on a loaded machine too
    options.record = false;
    const std::array<TensorView, 2> tensors{x, out};
    const TuneReport report = tune_op("user_tuned_scale", tensors, {{"n", 1000}, {"alpha", 2.0}}, options);
    EXPECT_EQ(report.result.candidates.size(), 5u) << "128 elements are too few for 8 warps";
    for (const CandidateEvidence& candidate : report.result.candidates)
      EXPECT_FALSE(is_failure(candidate.outcome)) << to_string(candidate.config) << ": " << candidate.reason;
    EXPECT_EQ(read_f32(out), std::vector<float>(1000, -1.0f)) << "tuning works on copies";
  }
}

TEST_F(UserKernelTest, PipelinesGetTheirSharedMemoryAndTuningPassesOverWhatDoesNotFit) {
  UserKernel kernel;
  kernel.name = "user_pipelined";
  kernel.source = {"pipelined.hpp", kProducts, {}};
  kernel.tunables = {{"NUM_STAGES", {2, 8, 40}}};  // of 8 KiB
  kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{1, 1, 1}; };
  Registry::process().register_op(kernel_op(kernel));
  for (const Device device : devices_) {
    SCOPED_TRACE(to_string(device));
    const Tensor x = make_f32(std::vector<float>(7 * 1024, 1.0f), device);
    const Tensor out = make_f32(std::vector<float>(1024, -1.0f), device);
    for (const std::int64_t stages : {2, 8}) {  // 8 stages take more than kernels get unasked
      const Config config{{"NUM_STAGES", stages}};
      dispatch_gpu_op("user_pipelined", {x, out}, {{"n", stages - 1}}, {.config = &config});
      EXPECT_EQ(read_f32(out), std::vector<float>(1024, 32.0f * static_cast<float>(stages - 1)));
    }
    const Config too_large{{"NUM_STAGES", 40}};
    if (device.is_cuda()) {
      EXPECT_THAT(
          value_error([&] { dispatch_gpu_op("user_pipelined", {x, out}, {{"n", 4}}, {.config = &too_large}); }),
          Says("op 'user_pipelined'", "products<float, 40>", "needs 327680 bytes", "smaller blocks or fewer stages"));
    }
    TuneOptions options;
    options.budget_s = 60;
    options.record = false;
    const std::array<TensorView, 2> tensors{x, out};
    const TuneReport report = tune_op("user_pipelined", tensors, {{"n", 4}}, options);
    ASSERT_EQ(report.result.candidates.size(), 3u);
    for (const CandidateEvidence& candidate : report.result.candidates) {
      const bool fits = !device.is_cuda() || candidate.config.at("NUM_STAGES") < 40;
      EXPECT_EQ(is_failure(candidate.outcome), !fits) << to_string(candidate.config) << ": " << candidate.reason;
      if (!fits) {
        EXPECT_THAT(candidate.reason, HasSubstr("needs 327680 bytes"));
      }
    }
  }
}

TEST_F(UserKernelTest, ServesAnOpWithOutputsByName) {
  UserKernel kernel = scale("user_outer");
  kernel.grid = [](const OpCall& call, const Config& config) {
    return std::array<std::int64_t, 3>{blocks(call.outputs[0].numel(), config.at("BLOCK_SIZE")), 1, 1};
  };
  OpSpec spec = outer_spec("user_outer");
  spec.variants.push_back(kernel_variant(spec, kernel));
  Registry::process().register_op(std::move(spec));
  OpSpec renamed = outer_spec("user_renamed");
  renamed.inputs[0].name = "input";
  renamed.variants.push_back(
      kernel_variant(renamed, kernel, [](const OpCall& call, const Config& config, const Target&) {
        LaunchValues launch;
        launch.grid[0] = blocks(call.inputs[0].numel(), config.at("BLOCK_SIZE"));
        launch.values = {{"NEGATE", true}};
        launch.tensors = {{"x", "input"}};
        return launch;
      }));
  Registry::process().register_op(std::move(renamed));
  for (const Device device : devices_) {
    const Tensor x = make_f32({1, 2, 3}, device);
    EXPECT_EQ(read_f32(dispatch_gpu_op("user_outer", {x}, {{"alpha", 3.0}})), (std::vector<float>{3, 6, 9}));
    EXPECT_EQ(read_f32(dispatch_gpu_op("user_renamed", {x})), (std::vector<float>{-1, -2, -3}));
  }
}

TEST(UserKernelSpec, RefusesVariantsThatNoCallCanBind) {
  const UserKernel kernel = scale("k");
  const auto refusal = [&](const OpSpec& spec, const UserKernel& with) {
    return usage_error([&] { kernel_variant(spec, with); });
  };
  OpSpec spec = outer_spec("k");
  spec.inputs[0].name = "y";
  EXPECT_THAT(refusal(spec, kernel), Says("'x'", "(out, y)"));
  spec = outer_spec("k");
  spec.attributes.clear();
  EXPECT_THAT(refusal(spec, kernel), Says("'alpha'", "neither an attribute nor a tunable"));
  spec = outer_spec("k");
  spec.inputs = {{"out", ""}};
  spec.outputs = {{"x", ""}};
  EXPECT_THAT(refusal(spec, kernel), Says("'out'", "may write it"));
  UserKernel without_grid = scale("k");
  without_grid.grid = {};
  EXPECT_THAT(refusal(outer_spec("k"), without_grid), HasSubstr("neither a grid nor 'launch'"));
}

}  // namespace
}  // namespace kiln::test
