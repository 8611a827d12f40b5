#include "cli/self_test.hpp"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <string>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "core/quantity.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"

namespace kiln::cli {
namespace {

SelfTest run(Device device) {
  std::array<float, 4> x{1, 2, 3, 4}, y{10, 20, 30, 40};
  const Dims shape{4};
  const Tensor a = to_device(dense_view(x.data(), DType::f32, shape), device);
  const Tensor b = to_device(dense_view(y.data(), DType::f32, shape), device);
  const std::array<TensorView, 2> views{a.view(), b.view()};
  const Target& target = device.is_cuda() ? device_info(device).target : host_cpu_target();
  const Artifact artifact = compiler_for(device.type).compile(compile_requests("add", views, {}, target).front());
  const Tensor sum = to_device(dispatch_gpu_op("add", {a, b}), Device::cpu());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (sum.data_as<float>()[i] != x[i] + y[i])
      return {false, fmt::format("add({}, {}) gave {}", x[i], y[i], sum.data_as<float>()[i])};
  return {true,
          fmt::format("add compiled in {} and ran", format_duration_us(static_cast<double>(artifact.compile_time_us)))};
}

}  // namespace

SelfTest self_test(Device device) noexcept {
  try {
    return run(device);
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

}  // namespace kiln::cli
