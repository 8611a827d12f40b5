// Ops with a variant for data that is aligned for tensor maps, and one for any other.

#include <dlfcn.h>

#include <cstring>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

constexpr const char* kFill = R"(#include <kiln/tl.hpp>
template <int VALUE>
KILN_KERNEL void fill_kernel(float* out) { kiln::tl::store(out, static_cast<float>(VALUE)); }
)";

Variant fill_variant(const std::string& name, std::int64_t value,
                     std::function<bool(const OpCall&, const Target&)> serves) {
  Variant variant;
  variant.name = name;
  variant.source = {"fill.hpp", kFill, {}};
  variant.kernel = "fill_kernel";
  variant.serves = std::move(serves);
  variant.space = [](const Target&) { return ConfigSpace{}; };
  variant.default_config = [](const OpCall&, const Target&) { return Config{}; };
  variant.plan = [value](const OpCall&, const Config&, const Target&) {
    LaunchPlan plan;
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.template_arguments = {value};
    launch.geometry.num_warps = 1;
    launch.arguments.add_tensor(0);
    return plan;
  };
  return variant;
}

/// out = 16 where the input's data is aligned for a tensor map, else 1.
OpSpec alignment_op(const std::string& name) {
  OpSpec spec;
  spec.name = name;
  spec.doc = "16 or 1, by the alignment of x";
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", ""}};
  spec.dtypes = {DType::f32};
  spec.infer = [](std::span<const TensorView>, const Attributes&) {
    return std::vector<TensorMeta>{{DType::f32, {1}}};
  };
  spec.variants = {
      fill_variant("aligned", 16,
                   [](const OpCall& call, const Target&) { return takes_tensor_map(call.inputs[0].data); }),
      fill_variant("any", 1, [](const OpCall&, const Target&) { return true; })};
  return spec;
}

TensorMap line(int tensor_index) {
  TensorMap map;
  map.tensor_index = tensor_index;
  map.dtype = DType::f32;
  map.rank = 1;
  map.extents = {32};
  map.box = {32};
  return map;
}

using AlignedVariantTest = DevicesTest;

TEST_F(AlignedVariantTest, IsChosenForEachCallByItsData) {
  Registry::process().register_op(alignment_op("alignment_of"));
  for (const Device device : devices_) {
    const Tensor x = make_f32(std::vector<float>(40), device);
    for (int round = 0; round < 2; ++round)
      for (const int offset : {0, 1, 4, 5, 8, 3})
        EXPECT_EQ(read_f32(dispatch_gpu_op("alignment_of", {view_of(x, {32}, {1}, offset)})),
                  std::vector<float>{offset % 4 == 0 ? 16.0f : 1.0f})
            << offset << " on " << to_string(device);
  }
}

TEST_F(AlignedVariantTest, TensorMapsAreAnInternalErrorOnTheCpu) {
  if (devices_[0].is_cuda()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  OpSpec spec = alignment_op("map_on_the_cpu");
  spec.variants[0].source.text =
      "#include <kiln/tl.hpp>\nstruct Map { unsigned char opaque[128]; };\ntemplate <int VALUE>\nKILN_KERNEL void "
      "fill_kernel(float* out, Map map) { kiln::tl::store(out, static_cast<float>(map.opaque[0])); }\n";
  spec.variants[0].plan = [plan = spec.variants[0].plan](const OpCall& call, const Config& config,
                                                         const Target& target) {
    LaunchPlan changed = plan(call, config, target);
    changed.launches[0].arguments.add_tensor_map(line(1));
    return changed;
  };
  Registry::process().register_op(std::move(spec));
  const Tensor x = make_f32(std::vector<float>(32));
  ASSERT_TRUE(takes_tensor_map(x.data()));
  EXPECT_THROW(dispatch_gpu_op("map_on_the_cpu", {x}), InternalError);
}

// Thread t copies word t of both maps: of the input and of scratch memory. The second kernel says where that memory is.
constexpr const char* kMapCopy = R"(#include <kiln/tl.hpp>
struct alignas(64) Map { unsigned words[32]; };
template <int TAG>
KILN_KERNEL void map_copy(const __grid_constant__ Map x, const __grid_constant__ Map scratch, unsigned* out) {
  out[threadIdx.x] = x.words[threadIdx.x];
  out[32 + threadIdx.x] = scratch.words[threadIdx.x];
}
template <int TAG>
KILN_KERNEL void scratch_address(const void* scratch, unsigned* out) {
  const auto address = reinterpret_cast<unsigned long long>(scratch);
  if (threadIdx.x < 2) out[64 + threadIdx.x] = static_cast<unsigned>(address >> 32 * threadIdx.x);
}
)";

OpSpec map_op(const std::string& name) {
  OpSpec spec = alignment_op(name);
  spec.infer = [](std::span<const TensorView>, const Attributes&) {
    return std::vector<TensorMeta>{{DType::u32, {66}}};
  };
  spec.variants.pop_back();
  Variant& variant = spec.variants[0];
  variant.source = {"map_copy.cuh", kMapCopy, {}};
  variant.kernel = "map_copy";
  variant.plan = [](const OpCall&, const Config&, const Target&) {
    LaunchPlan plan;
    plan.workspace_bytes = {1024, 128};
    KernelLaunch& copy = plan.launches.emplace_back();
    copy.template_arguments = {std::int64_t{0}};
    copy.geometry.num_warps = 1;
    copy.arguments.add_tensor_map(line(1));
    TensorMap over_scratch = line(0);
    over_scratch.workspace_index = 1;
    copy.arguments.add_tensor_map(over_scratch);
    copy.arguments.add_tensor(0);
    KernelLaunch& address = plan.launches.emplace_back();
    address.kernel = "scratch_address";
    address.template_arguments = {std::int64_t{0}};
    address.geometry.num_warps = 1;
    address.arguments.add_workspace(1);
    address.arguments.add_tensor(0);
    return plan;
  };
  return spec;
}

class TensorMapDispatchTest : public GpuKernelTest {
 protected:
  static void SetUpTestSuite() { Registry::process().register_op(map_op("map_copy")); }
  void SetUp() override {
    GpuKernelTest::SetUp();
    if (IsSkipped()) return;
    if (device_info(device_).target.arch < "sm_90") GTEST_SKIP() << device_info(device_).target.arch << " has no TMA";
  }

  /// The 32 words that the driver, asked without Kiln, encodes for line() at `address`.
  static std::vector<std::uint32_t> expected(void* address) {
    using Encode = int (*)(void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const unsigned*,
                           const unsigned*, int, int, int, int);
    const auto encode = reinterpret_cast<Encode>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled"));
    const std::uint64_t extent = 32, strides_bytes[4] = {};
    const unsigned box = 32, element_stride = 1;
    constexpr int kF32 = 7;
    alignas(128) std::uint32_t words[32];
    EXPECT_EQ(encode(words, kF32, 1, address, &extent, strides_bytes, &box, &element_stride, 0, 0, 0, 0), 0);
    return {words, words + 32};
  }

  static std::vector<std::uint32_t> read(const Tensor& tensor) {
    const Tensor host = to_device(tensor, Device::cpu());
    return {host.data_as<std::uint32_t>(), host.data_as<std::uint32_t>() + host.numel()};
  }

  static void expect_maps_of(const Tensor& out, const Tensor& x) {
    const std::vector<std::uint32_t> words = read(out);
    EXPECT_EQ(std::vector(words.begin(), words.begin() + 32), expected(x.data()));
    const std::uint64_t scratch = words[64] | static_cast<std::uint64_t>(words[65]) << 32;
    EXPECT_EQ(std::vector(words.begin() + 32, words.begin() + 64), expected(reinterpret_cast<void*>(scratch)));
  }

  const Device device_ = Device::cuda(0);
};

TEST_F(TensorMapDispatchTest, EachCallGetsMapsOfItsOwnMemory) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(make_f32(std::vector<float>(40), device_));
  inputs.push_back(view_of(inputs[0], {32}, {1}, 4));
  for (Tensor& input : inputs) input = view_of(input, {32}, {1});
  std::vector<Tensor> outputs;
  for (int round = 0; round < 2; ++round) {
    outputs.clear();
    for (const Tensor& input : inputs) outputs.push_back(dispatch_gpu_op("map_copy", {input}));
    for (std::size_t i = 0; i < inputs.size(); ++i) expect_maps_of(outputs[i], inputs[i]);
  }
  EXPECT_THROW(dispatch_gpu_op("map_copy", {view_of(inputs[0], {32}, {1}, 1)}), UsageError)
      << "no variant serves data that is not aligned";
}

TEST_F(TensorMapDispatchTest, ResolvedOpsTakeAlignedDataOnly) {
  const Tensor x = make_f32(std::vector<float>(40), device_), out = empty({66}, DType::u32, device_);
  const Stream stream = Stream::default_of(device_);
  const ResolvedOp op = resolve("map_copy", {TensorView{nullptr, DType::f32, device_, {32}, {1}}});
  for (const int offset : {0, 4, 8}) {
    const Tensor at = view_of(x, {32}, {1}, offset);
    op({at}, {out}, stream);
    expect_maps_of(out, at);
  }
  EXPECT_THAT(usage_message([&] { op({view_of(x, {32}, {1}, 1)}, {out}, stream); }),
              Says("input 'x' is 4 bytes past a multiple of 16", "resolve"));
}

}  // namespace
}  // namespace kiln::test
