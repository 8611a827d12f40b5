#include "runtime/cuda/driver.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/errors.hpp"
#include "core/tensor_map.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/library.hpp"
#include "runtime/process_fork.hpp"

namespace kiln {
namespace cuda {
namespace {

// By their names in the library, as in driver.cpp.
#define KILN_KERNEL_FUNCTIONS(FUNCTION)  \
  FUNCTION(cuDeviceGet)                  \
  FUNCTION(cuLibraryLoadData)            \
  FUNCTION(cuLibraryUnload)              \
  FUNCTION(cuLibraryGetGlobal)           \
  FUNCTION(cuLibraryGetKernel)           \
  FUNCTION(cuKernelGetFunction)          \
  FUNCTION(cuKernelGetAttribute)         \
  FUNCTION(cuKernelSetAttribute)         \
  FUNCTION(cuLaunchKernelEx)             \
  FUNCTION(cuOccupancyMaxActiveClusters) \
  FUNCTION(cuTensorMapEncodeTiled)       \
  FUNCTION(cuTensorMapReplaceAddress)

struct Functions {
// A declared name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_KERNEL_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
  // Since CUDA 12.4; loads at once what lazy loading would otherwise load at the first launch.
  CUresult (*func_load)(CUfunction) = nullptr;
};

/// Filled while the driver is opened. Whoever holds a handle of the driver's knows that it is.
constinit Functions functions;

CUdevice device_of(int ordinal) {
  CUdevice device = 0;
  check(functions.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

int kernel_attribute(CUkernel kernel, CUdevice device, CUfunction_attribute attribute) {
  int value = 0;
  check(functions.cuKernelGetAttribute(&value, attribute, kernel, device), "cuKernelGetAttribute");
  return value;
}

/// Programs along one axis of the clusters that a kernel was compiled for; 1 without clusters, and where neither driver
/// nor device knows them.
std::int32_t cluster_extent(CUkernel kernel, CUdevice device, CUfunction_attribute axis) {
  int extent = 0;
  const CUresult result = functions.cuKernelGetAttribute(&extent, axis, kernel, device);
  return result == CUDA_SUCCESS && extent > 0 ? extent : 1;
}

// A kernel that does nothing, for questions about any: NVRTC was the alternative, which takes longer and may be absent.
constexpr std::string_view kEmptyKernel =
    ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }";

struct Unload {
  void operator()(CUlibrary library) const noexcept { functions.cuLibraryUnload(library); }
};

CUtensorMapDataType tensor_map_type(const TensorMap& map) {
  if (map.rounds_to_tf32) return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  switch (map.dtype) {
    case DType::f64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default:
      break;
  }
  // Of integers only the size matters: bits move as they are.
  switch (itemsize_bytes(map.dtype)) {
    case 8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case 4:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case 2:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

}  // namespace

const char* resolve_kernel_functions(void* library) noexcept {
  const char* missing = nullptr;
#define KILN_RESOLVE(name)                                                            \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr && missing == nullptr) missing = #name;
  KILN_KERNEL_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
  functions.func_load = reinterpret_cast<decltype(functions.func_load)>(dlsym(library, "cuFuncLoad"));
  return missing;
}

LoadedKernel load_kernel(const std::vector<std::byte>& code, bool is_ptx, const char* entry, int ordinal,
                         const std::string& name) {
  require_driver();
  const CUdevice device = device_of(ordinal);
  CUlibrary library = nullptr;
  std::array<char, 4096> log{};
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUresult result = functions.cuLibraryLoadData(&library, code.data(), options.data(), values.data(), is_ptx ? 2 : 0,
                                                nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) {
    std::string text = meaning(static_cast<int>(result));
    if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_NO_BINARY_FOR_GPU)
      text += fmt::format(
          "; the driver is for CUDA {}.{} and may be older than the NVRTC that compiled this: use a newer driver, or "
          "set KILN_NVRTC_PATH to a libnvrtc of the "
          "driver's CUDA version",
          driver_version() / 1000, driver_version() % 1000 / 10);
    if (log[0] != '\0') text += fmt::format("\n{}", log.data());
    throw DeviceError(fmt::format("cuLibraryLoadData (kernel {})", name), static_cast<int>(result), text);
  }
  // What fails from here on leaves nothing behind: nobody has launched the kernel yet.
  std::unique_ptr<std::remove_pointer_t<CUlibrary>, Unload> unloaded_on_failure(library);
  CUkernel kernel = nullptr;
  result = functions.cuLibraryGetKernel(&kernel, library, entry);
  if (result != CUDA_SUCCESS)
    fail_call(static_cast<int>(result), fmt::format("cuLibraryGetKernel (kernel {}, symbol {})", name, entry));

  // Under lazy loading the code would reach the device at the first launch, which may be inside a stream capture.
  CUfunction function = nullptr;
  check(functions.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  if (functions.func_load != nullptr) check(functions.func_load(function), "cuFuncLoad");

  LoadedKernel loaded;
  loaded.kernel = kernel;
  loaded.registers = kernel_attribute(kernel, device, CU_FUNC_ATTRIBUTE_NUM_REGS);
  loaded.static_shared_bytes = kernel_attribute(kernel, device, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  loaded.local_bytes = kernel_attribute(kernel, device, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  loaded.max_threads_per_block = kernel_attribute(kernel, device, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  loaded.cluster = {cluster_extent(kernel, device, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
                    cluster_extent(kernel, device, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
                    cluster_extent(kernel, device, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
  // Not every GPU runs larger clusters, which a kernel must say that it knows.
  constexpr std::int32_t kMostPortablePrograms = 8;
  if (loaded.cluster[0] * loaded.cluster[1] * loaded.cluster[2] > kMostPortablePrograms)
    check(functions.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, kernel, device),
          "cuKernelSetAttribute");
  loaded.library = unloaded_on_failure.release();
  return loaded;
}

void unload_kernel(const LoadedKernel& kernel) {
  check(functions.cuLibraryUnload(static_cast<CUlibrary>(kernel.library)), "cuLibraryUnload");
}

void* find_global(void* library, const char* symbol, std::size_t size_bytes, const std::string& name) {
  require_driver();
  CUdeviceptr address = 0;
  std::size_t found_bytes = 0;
  const CUresult result = functions.cuLibraryGetGlobal(&address, &found_bytes, static_cast<CUlibrary>(library), symbol);
  if (result == CUDA_ERROR_NOT_FOUND) return nullptr;
  if (result != CUDA_SUCCESS)
    fail_call(static_cast<int>(result), fmt::format("cuLibraryGetGlobal (kernel {}, symbol {})", name, symbol));
  if (found_bytes != size_bytes)
    throw InternalError(
        fmt::format("variable {} of kernel {} has {} bytes, not {}", symbol, name, found_bytes, size_bytes));
  return reinterpret_cast<void*>(address);
}

void write_global(void* destination, const void* source, std::size_t size_bytes) {
  const RelaxedCapture relaxed;
  // A stream of its own, which waits for none: the default stream may not be used while another is captured.
  const std::unique_ptr<void, void (*)(void*) noexcept> stream(create_stream(0), destroy_stream);
  copy_host_to_device(destination, source, size_bytes, stream.get());
  synchronize_stream(stream.get());
}

std::int32_t cluster_processors(int ordinal, int programs) {
  const auto* const text = reinterpret_cast<const std::byte*>(kEmptyKernel.data());
  std::vector<std::byte> code(text, text + kEmptyKernel.size());
  code.push_back(std::byte{0});
  const LoadedKernel loaded = load_kernel(code, true, "empty", ordinal, "empty");
  const std::unique_ptr<std::remove_pointer_t<CUlibrary>, Unload> unloaded(static_cast<CUlibrary>(loaded.library));
  // As much as a program can have: no other fits beside it.
  const std::int32_t shared_bytes = query_device(ordinal).shared_bytes_per_block;
  allow_shared_bytes(loaded.kernel, ordinal, shared_bytes);
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {static_cast<unsigned>(programs), 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(programs);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 128;
  config.sharedMemBytes = static_cast<unsigned>(shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  check(functions.cuOccupancyMaxActiveClusters(&clusters, static_cast<CUfunction>(loaded.kernel), &config),
        "cuOccupancyMaxActiveClusters");
  return clusters * programs;
}

void allow_shared_bytes(void* kernel, int ordinal, std::int32_t size_bytes) {
  require_driver();
  check(functions.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size_bytes,
                                       static_cast<CUkernel>(kernel), device_of(ordinal)),
        "cuKernelSetAttribute");
}

void launch(void* kernel, const LaunchShape& shape, void* const* parameters, void* stream, const std::string& name) {
  // A loaded kernel is proof that the driver works, unless a fork came in between.
  if (is_lost_in_fork(ForkLoss::cuda_driver)) [[unlikely]]
    require_driver();
  CUlaunchConfig config;
  config.gridDimX = shape.grid_x;
  config.gridDimY = shape.grid_y;
  config.gridDimZ = shape.grid_z;
  config.blockDimX = shape.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = static_cast<CUstream>(stream);
  CUlaunchAttribute overlap;
  config.attrs = &overlap;
  config.numAttrs = 0;
  if (shape.overlaps_previous) {
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
    config.numAttrs = 1;
  }
  // The driver takes a CUkernel in place of a CUfunction and finds the function of the stream's context.
  const CUresult result =
      functions.cuLaunchKernelEx(&config, static_cast<CUfunction>(kernel), const_cast<void**>(parameters), nullptr);
  if (result != CUDA_SUCCESS) [[unlikely]]
    fail_call(static_cast<int>(result),
              fmt::format("cuLaunchKernelEx (kernel {}, grid {}x{}x{}, {} threads, {} bytes of shared memory)", name,
                          shape.grid_x, shape.grid_y, shape.grid_z, shape.threads, shape.shared_bytes));
}

}  // namespace cuda

void CudaBackend::encode_tensor_map(void* encoded, const TensorMap& map, void* address) {
  static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) <= 128);
  // Both enumerations count as the driver's do.
  static_assert(static_cast<int>(TensorMapSwizzle::b128) == CU_TENSOR_MAP_SWIZZLE_128B &&
                static_cast<int>(TensorMapPromotion::b256) == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  cuda::require_driver();
  std::array<cuuint64_t, kMaxTensorMapRank> extents{};
  std::array<cuuint64_t, kMaxTensorMapRank - 1> strides_bytes{};
  std::array<cuuint32_t, kMaxTensorMapRank> box{}, element_strides{};
  std::copy(map.extents.begin(), map.extents.end(), extents.begin());
  std::copy(map.strides_bytes.begin(), map.strides_bytes.end(), strides_bytes.begin());
  std::copy(map.box.begin(), map.box.end(), box.begin());
  element_strides.fill(1);
  const CUresult result = cuda::functions.cuTensorMapEncodeTiled(
      static_cast<CUtensorMap*>(encoded), cuda::tensor_map_type(map), static_cast<cuuint32_t>(map.rank), address,
      extents.data(), strides_bytes.data(), box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      static_cast<CUtensorMapSwizzle>(map.swizzle), static_cast<CUtensorMapL2promotion>(map.l2_promotion),
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    cuda::fail_call(
        static_cast<int>(result),
        fmt::format("cuTensorMapEncodeTiled ({}, address {}, extents {}, strides {}, box {})", name(map.dtype), address,
                    fmt::join(std::span(extents).first(static_cast<std::size_t>(map.rank)), "x"),
                    fmt::join(std::span(strides_bytes).first(static_cast<std::size_t>(map.rank - 1)), ", "),
                    fmt::join(std::span(box).first(static_cast<std::size_t>(map.rank)), "x")));
}

void CudaBackend::replace_address(void* encoded, void* address) {
  cuda::require_driver();
  cuda::check(cuda::functions.cuTensorMapReplaceAddress(static_cast<CUtensorMap*>(encoded), address),
              "cuTensorMapReplaceAddress");
}

}  // namespace kiln
