#include "benchmarks/raw_launch.hpp"

#include <dlfcn.h>

#include <memory>
#include <stdexcept>

#include "runtime/cpu/orc_library.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

RawLaunch::RawLaunch(const kiln::Artifact& artifact, const kiln::LaunchGeometry& geometry) : geometry_(geometry) {
  if (artifact.kind == kiln::ArtifactKind::object) {
    static kiln::LinkResult linked;  // stays for the life of the program, as the function pointer does
    linked = {};
    kiln::orc_link_function()(artifact.code, artifact.name, artifact.entry, linked);
    if (linked.object == nullptr) throw std::runtime_error(linked.problem);
    function_ = reinterpret_cast<void*>(linked.object->entry());
    return;
  }
#if __has_include(<cuda.h>)
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error("libcuda.so.1 does not open");
  const auto load = reinterpret_cast<decltype(&cuModuleLoadData)>(dlsym(library, "cuModuleLoadData"));
  const auto get = reinterpret_cast<decltype(&cuModuleGetFunction)>(dlsym(library, "cuModuleGetFunction"));
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (load(&module, artifact.code.data()) != CUDA_SUCCESS ||
      get(&function, module, artifact.entry.c_str()) != CUDA_SUCCESS)
    throw std::runtime_error("the driver does not load " + artifact.name);
  function_ = function;
  launch_ = dlsym(library, "cuLaunchKernelEx");
#endif
}

void RawLaunch::operator()(void** parameters) const {
#if __has_include(<cuda.h>)
  if (launch_ != nullptr) {
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(geometry_.grid[0]);
    config.gridDimY = static_cast<unsigned>(geometry_.grid[1]);
    config.gridDimZ = static_cast<unsigned>(geometry_.grid[2]);
    config.blockDimX = static_cast<unsigned>(32 * geometry_.num_warps);
    config.blockDimY = config.blockDimZ = 1;
    const auto code = reinterpret_cast<decltype(&cuLaunchKernelEx)>(launch_)(
        &config, static_cast<CUfunction>(function_), parameters, nullptr);
    if (code != CUDA_SUCCESS) throw std::runtime_error("cuLaunchKernelEx failed");
    return;
  }
#endif
  const std::int64_t* grid = geometry_.grid.data();
  reinterpret_cast<kiln::LinkedObject::Entry>(function_)(parameters, grid, 0, grid[0] * grid[1] * grid[2]);
}
