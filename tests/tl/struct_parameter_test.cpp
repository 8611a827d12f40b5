#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "tests/support/devices.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

struct Numbers { int64_t values[16]; };

/// Reads its parameter at an index that is not known before the run.
template <typename T>
KILN_KERNEL void reading_kernel(T* out, Numbers numbers) {
  tl::store(out + tl::program_id(0), numbers.values[tl::program_id(0) % 16]);
}

/// Changes its parameter, which is its own: the next program must not see it.
template <typename T>
KILN_KERNEL void changing_kernel(T* out, Numbers numbers) {
  numbers.values[tl::program_id(0) % 16] += 1000;
  int64_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += numbers.values[i];
  tl::store(out + tl::program_id(0), sum);
}
)";

struct Numbers {
  std::array<std::int64_t, 16> values;
};

constexpr std::int64_t kPrograms = 40;

std::vector<std::int64_t> run(const std::string& name, Device device, const Numbers& numbers) {
  const TextKernel text{"struct_parameter.hpp", kKernels, name, {DType::i64}};
  const Target target = device.is_cuda() ? device_info(device).target : host_cpu_target();
  const auto kernel = load_kernel(compiler_for(device.type).compile(text.request(target)), device);
  const Tensor out = empty({kPrograms}, DType::i64, device);
  ArgumentTemplate parameters;
  parameters.add_tensor(0);
  parameters.add_value(numbers);
  void* data[] = {out.data()};
  void* bound[kMaxArguments];
  parameters.bind(data, bound);
  kernel->launch({{kPrograms, 1, 1}, text.num_warps, 0}, bound, Stream::default_of(device));
  synchronize(Stream::default_of(device));
  const Tensor back = to_device(out, Device::cpu());
  const auto* const first = static_cast<const std::int64_t*>(back.data());
  return {first, first + kPrograms};
}

TEST(StructParameterTest, IsReadWhole) {
  Numbers numbers{};
  for (std::size_t i = 0; i < 16; ++i) numbers.values[i] = static_cast<std::int64_t>(100 + i);
  for (const Device device : devices_with_compilers()) {
    const std::vector<std::int64_t> got = run("reading_kernel", device, numbers);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], numbers.values[i % 16]) << to_string(device) << i;
  }
}

TEST(StructParameterTest, IsEachProgramsOwn) {
  Numbers numbers{};
  for (std::size_t i = 0; i < 16; ++i) numbers.values[i] = static_cast<std::int64_t>(i);
  for (const Device device : devices_with_compilers())
    for (const std::int64_t sum : run("changing_kernel", device, numbers)) EXPECT_EQ(sum, 120 + 1000);
}

}  // namespace
}  // namespace kiln::test
