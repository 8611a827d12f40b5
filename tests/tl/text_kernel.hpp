#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "core/launch.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"
#include "runtime/memory.hpp"
#include "runtime/tensor_map.hpp"

namespace kiln::test {

/// A kernel whose text stands in the test. `text` includes <kiln/tl.hpp>.
struct TextKernel {
  std::string path;
  std::string text;
  std::string name;
  std::vector<TemplateArgument> arguments;
  std::int32_t num_warps = 4;
  bool debug = false;
  std::int32_t shared_bytes = 0;
  /// The kernel's first parameters, before the tensors that they describe (TensorMap::tensor_index).
  std::vector<TensorMap> tensor_maps{};
  std::int32_t copy_warps = 0;  ///< on sm_90a; other devices have none

  CompileRequest request(const Target& target) const {
    CompileRequest made;
    made.op = name;
    made.configuration = "num_warps=" + std::to_string(num_warps);
    made.source = {path, text, {}};
    made.kernel = name;
    made.template_arguments = arguments;
    made.num_warps = num_warps;
    made.copy_warps = target.arch == "sm_90a" ? copy_warps : 0;
    made.debug = debug;
    made.target = target;
    return made;
  }

  struct Loaded {
    std::shared_ptr<const Kernel> kernel;
    std::vector<BoxLoad> box_loads;
    std::int32_t shared_bytes;  ///< what the kernel's pipelines take
  };
  /// Compiled and loaded, for several runs.
  Loaded load(Device device) const {
    const Target target = device.is_cuda() ? device_info(device).target : host_cpu_target();
    const Artifact artifact = compiler_for(device.type).compile(request(target));
    return {load_kernel(artifact, device), artifact.box_loads, artifact.dynamic_shared_bytes};
  }

  /// Compiles, and runs over copies of `tensors`, which are read back.
  void run(Device device, std::array<std::int64_t, 3> grid, std::vector<Tensor>& tensors,
           const std::vector<std::int64_t>& numbers = {}) const {
    run(load(device), device, grid, tensors, numbers);
  }
  void run(const Loaded& loaded, Device device, std::array<std::int64_t, 3> grid, std::vector<Tensor>& tensors,
           const std::vector<std::int64_t>& numbers = {}) const {
    std::vector<Tensor> copies;
    ArgumentTemplate parameters;
    for (const TensorMap& map : tensor_maps) parameters.add_tensor_map(map);
    void* data[kMaxArguments] = {};
    for (const Tensor& tensor : tensors) {
      parameters.add_tensor(static_cast<int>(copies.size()));
      copies.push_back(to_device(tensor, device));
      data[copies.size() - 1] = copies.back().data();
    }
    for (const std::int64_t number : numbers) parameters.add_value(number);
    void* bound[kMaxArguments];
    parameters.bind(data, bound);
    const TensorMapSet maps(parameters.tensor_maps(), data, device);
    TensorMapSet::Storage storage;
    maps.bind(data, storage, bound);
    loaded.kernel->take_box_maps(box_maps(loaded.box_loads, parameters));
    LaunchGeometry geometry{grid, num_warps, std::max(shared_bytes, loaded.shared_bytes)};
    if (device.is_cuda()) geometry.copy_warps = request(device_info(device).target).copy_warps;
    loaded.kernel->launch(geometry, bound, Stream::default_of(device));
    synchronize(Stream::default_of(device));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor back = to_device(copies[i], Device::cpu());
      std::memcpy(tensors[i].data(), back.data(),
                  static_cast<std::size_t>(back.numel() * itemsize_bytes(back.dtype())));
    }
  }
};

}  // namespace kiln::test
