#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/device_target.hpp"
#include "runtime/device_info.hpp"
#include "tests/support/guarded_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

Config streaming(std::int64_t block_size) {
  return {{"BLOCK_SIZE", block_size}, {"STREAM", 1}};
}
const Config kPlain{{"BLOCK_SIZE", 128}, {"STREAM", 0}}, kStreaming = streaming(128);

std::string assembly(const Config& config) {
  const Target target = target_of(Device::cpu());
  const TensorView x = dense_view(nullptr, DType::f32, {1 << 20}, Device::cpu());
  const CompileRequest request = compile_requests("add", std::vector{x, x}, {}, target, &config).at(0);
  return compiler_for(target.type).emit(request, EmitKind::assembly);
}

/// x + x by the given config, written at `offset_elements` from an aligned address.
void add_twice(const GuardedTensor& x, GuardedTensor& out, const Config& config) {
  DispatchOptions options;
  options.config = &config;
  const std::vector<TensorView> inputs{x.host_view(), x.host_view()}, outputs{out.host_view()};
  resolve("add", inputs, {}, options)(inputs, outputs, Stream::default_of(Device::cpu()));
}

TEST(StreamingStoreTest, IsNonTemporalAndFencedOnlyWhereAskedFor) {
  const std::string plain = assembly(kPlain), streaming = assembly(kStreaming);
  EXPECT_THAT(plain, Not(HasSubstr("movnt")));
  EXPECT_THAT(plain, Not(HasSubstr("sfence")));
  EXPECT_THAT(streaming, Says("movnt", "sfence"));
}

TEST(StreamingStoreTest, WritesWhatPlainStoresWriteWhateverTheSizeAndAlignment) {
  std::mt19937_64 random(3);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::u8})
    for (const std::int64_t n : {0, 1, 15, 16, 63, 64, 127, 128, 129, 255, 1000, 4096, 5003})
      for (const std::int64_t offset_elements : {0, 1, 3, 8, 60}) {
        const Layout layout{contiguous_strides(Dims{n}), offset_elements};
        GuardedTensor x(dtype, {n}, layout), out(dtype, {n}, layout), expected(dtype, {n}, layout);
        x.fill_random({-4, 4}, false, random);
        add_twice(x, expected, kPlain);
        for (const std::int64_t block_size : {16, 32, 64, 128, 256}) {  // shorter than a line and longer
          out.fill_random({5, 9}, false, random);
          add_twice(x, out, streaming(block_size));
          const std::size_t size_bytes = static_cast<std::size_t>(n * itemsize_bytes(dtype));
          const std::string what =
              fmt::format("{} n={} offset={} block={}", name(dtype), n, offset_elements, block_size);
          ASSERT_EQ(std::memcmp(out.host_view().data, expected.host_view().data, size_bytes), 0) << what;
          ASSERT_EQ(out.damage(true), "") << what;
        }
      }
}

TEST(StreamingStoreTest, WritesOneNumberEverywhere) {
  const Tensor x = empty({5003}, DType::bf16, Device::cpu());
  DispatchOptions options;
  options.config = &kStreaming;
  const Tensor filled = dispatch_gpu_op("fill", std::vector{x}, {{"value", 1.5}}, options);
  for (std::int64_t i = 0; i < 5003; ++i) ASSERT_EQ(filled.data_as<std::uint16_t>()[i], 0x3FC0) << i;
}

TEST(StreamingStoreTest, WritesOverAnInput) {
  constexpr std::int64_t kElements = 5003;
  const Tensor x = empty({kElements}, DType::f32, Device::cpu()), y = empty({kElements}, DType::f32, Device::cpu());
  for (std::int64_t i = 0; i < kElements; ++i) {
    x.data_as<float>()[i] = static_cast<float>(i);
    y.data_as<float>()[i] = 0.5F;
  }
  DispatchOptions options;
  options.config = &kStreaming;
  const std::vector<Tensor> outputs{y};
  options.outputs = outputs;
  dispatch_gpu_op("add", std::vector{x, y}, {}, options);
  for (std::int64_t i = 0; i < kElements; ++i) ASSERT_EQ(y.data_as<float>()[i], static_cast<float>(i) + 0.5F) << i;
}

TEST(StreamingStoreTest, ALargeCallStreamsByDefaultAndIsSeenByTheCaller) {
  constexpr std::int64_t kElements = (std::int64_t{9} << 20) + 5;  // 108 MB moved, the last tile partial
  const Tensor x = empty({kElements}, DType::f32, Device::cpu());
  for (std::int64_t i = 0; i < kElements; ++i) x.data_as<float>()[i] = static_cast<float>(i % 1000);
  const std::vector<TensorView> inputs{x, x};
  EXPECT_EQ(resolve("add", inputs).report().config.at("STREAM"), 1);
  const Tensor sum = dispatch_gpu_op("add", std::vector{x, x});
  for (std::int64_t i = 0; i < kElements; ++i)
    ASSERT_EQ(sum.data_as<float>()[i], 2 * static_cast<float>(i % 1000)) << i;
}

}  // namespace
}  // namespace kiln::test
