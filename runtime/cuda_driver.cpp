#include "runtime/cuda_driver.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/errors.hpp"
#include "runtime/cuda_library.hpp"
#include "runtime/process_fork.hpp"

namespace kiln::cuda {
namespace {

// By their names in the library: the ones that cuda.h's macros may redirect (cuMemAlloc is cuMemAlloc_v2) are written
// out, so that the version which is looked up is the version whose prototype is used, whatever toolkit this is built
// with.
#define KILN_DRIVER_FUNCTIONS(FUNCTION)       \
  FUNCTION(cuInit)                            \
  FUNCTION(cuDriverGetVersion)                \
  FUNCTION(cuGetErrorName)                    \
  FUNCTION(cuGetErrorString)                  \
  FUNCTION(cuDeviceGetCount)                  \
  FUNCTION(cuDeviceGet)                       \
  FUNCTION(cuDeviceGetName)                   \
  FUNCTION(cuDeviceGetAttribute)              \
  FUNCTION(cuDeviceTotalMem_v2)               \
  FUNCTION(cuDevicePrimaryCtxRetain)          \
  FUNCTION(cuCtxGetCurrent)                   \
  FUNCTION(cuCtxSetCurrent)                   \
  FUNCTION(cuCtxSynchronize)                  \
  FUNCTION(cuThreadExchangeStreamCaptureMode) \
  FUNCTION(cuLibraryLoadData)                 \
  FUNCTION(cuLibraryGetKernel)                \
  FUNCTION(cuKernelGetFunction)               \
  FUNCTION(cuKernelGetAttribute)              \
  FUNCTION(cuKernelSetAttribute)              \
  FUNCTION(cuLaunchKernelEx)                  \
  FUNCTION(cuTensorMapEncodeTiled)            \
  FUNCTION(cuTensorMapReplaceAddress)

/// What libcuda offers, or why it cannot be used.
struct Driver {
// A declared name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_DRIVER_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
  // Since CUDA 12.4; loads at once what lazy loading would otherwise load at the first launch.
  CUresult (*func_load)(CUfunction) = nullptr;

  std::string problem;
  int version = 0;
  int count = 0;
};

std::string meaning(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) return "an error unknown to this driver";
  driver.cuGetErrorString(result, &text);
  std::string meaning = fmt::format("{} ({})", text != nullptr ? text : "no description", name);
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      meaning += "; a kernel that ran earlier failed, and this process can no longer use the device";
      break;
    default:
      break;
  }
  return meaning;
}

[[noreturn]] void fail(const Driver& driver, CUresult result, const std::string& call) {
  throw DeviceError(call, static_cast<int>(result), meaning(driver, result));
}

std::string start_failure(const Driver& driver, CUresult result) {
  if (result == CUDA_ERROR_STUB_LIBRARY)
    return "this libcuda is the toolkit's stub; take its folder off LD_LIBRARY_PATH";
  // What the driver says to the child of a process in which somebody else started it.
  if (result == CUDA_ERROR_NOT_INITIALIZED)
    return fmt::format("{}; if this process was forked after CUDA was used, use the spawn start method instead",
                       meaning(driver, result));
  return meaning(driver, result);
}

Driver load_driver() {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    driver.problem = fmt::format("no NVIDIA driver on this machine ({})",
                                 error != nullptr ? error : "libcuda.so.1 cannot be opened");
    return driver;
  }
  const char* missing = nullptr;
#define KILN_RESOLVE(name)                                                      \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #name)); \
  if (driver.name == nullptr && missing == nullptr) missing = #name;
  KILN_DRIVER_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
  for (const auto resolve : {resolve_memory_functions, resolve_stream_functions, resolve_graph_functions})
    if (const char* name = resolve(library); name != nullptr && missing == nullptr) missing = name;
  driver.func_load = reinterpret_cast<decltype(driver.func_load)>(dlsym(library, "cuFuncLoad"));
  if (missing != nullptr) {
    driver.problem = fmt::format(
        "the NVIDIA driver is too old (its libcuda has no {}): Kiln needs one for CUDA 12.0 or newer", missing);
    return driver;
  }
  if (const CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) {
    driver.problem = fmt::format("the NVIDIA driver does not start: cuInit failed with code {}: {}",
                                 static_cast<int>(result), start_failure(driver, result));
    return driver;
  }
  note_lost_in_fork(ForkLoss::cuda_driver);
  driver.cuDriverGetVersion(&driver.version);
  if (const CUresult result = driver.cuDeviceGetCount(&driver.count); result != CUDA_SUCCESS) {
    driver.count = 0;
    driver.problem =
        fmt::format("cuDeviceGetCount failed with code {}: {}", static_cast<int>(result), meaning(driver, result));
  } else if (driver.count == 0) {
    driver.problem = "the NVIDIA driver offers no device (CUDA_VISIBLE_DEVICES may hide them)";
  }
  return driver;
}

/// Of a child whose parent had used the driver: the same functions, to be called no more.
Driver driver_lost_in_fork(const Driver& parents) {
  Driver driver = parents;
  driver.count = 0;
  if (!driver.problem.empty()) return driver;
  driver.problem =
      "this process was forked after CUDA was used, and CUDA does not work in such a process; use the spawn start "
      "method (multiprocessing.get_context(\"spawn\")), or fork before CUDA is used";
  return driver;
}

/// Loaded once, never closed: memory may be freed while statics are being destroyed.
const Driver& any_driver() {
  static const Driver* const driver = new Driver(load_driver());
  if (is_lost_in_fork(ForkLoss::cuda_driver)) [[unlikely]] {
    static const Driver* const lost = new Driver(driver_lost_in_fork(*driver));
    return *lost;
  }
  return *driver;
}

const Driver& usable_driver() {
  const Driver& driver = any_driver();
  if (!driver.problem.empty()) [[unlikely]]
    throw DeviceError("using CUDA", 0, driver.problem);
  return driver;
}

void check(const Driver& driver, CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) [[unlikely]]
    fail(driver, result, call);
}

CUstream stream_of(void* stream) {
  return static_cast<CUstream>(stream);
}

CUdevice device_of(const Driver& driver, int ordinal) {
  CUdevice device = 0;
  check(driver, driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

int device_attribute(const Driver& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  check(driver, driver.cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

int kernel_attribute(const Driver& driver, CUkernel kernel, CUdevice device, CUfunction_attribute attribute) {
  int value = 0;
  check(driver, driver.cuKernelGetAttribute(&value, attribute, kernel, device), "cuKernelGetAttribute");
  return value;
}

/// Programs along one axis of the clusters that a kernel was compiled for; 1 without clusters, and where neither driver
/// nor device knows them.
std::int32_t cluster_extent(const Driver& driver, CUkernel kernel, CUdevice device, CUfunction_attribute axis) {
  int extent = 0;
  const CUresult result = driver.cuKernelGetAttribute(&extent, axis, kernel, device);
  return result == CUDA_SUCCESS && extent > 0 ? extent : 1;
}

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

void require_driver() {
  usable_driver();
}

void fail_call(int code, const std::string& call) {
  fail(any_driver(), static_cast<CUresult>(code), call);
}

int device_count() noexcept {
  return any_driver().count;
}

const std::string& driver_problem() noexcept {
  return any_driver().problem;
}

int driver_version() {
  return usable_driver().version;
}

DeviceProperties query_device(int ordinal) {
  const Driver& driver = usable_driver();
  const CUdevice device = device_of(driver, ordinal);
  DeviceProperties properties;
  std::array<char, 256> name{};
  check(driver, driver.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), device), "cuDeviceGetName");
  properties.name = name.data();
  properties.major = device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  properties.minor = device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties.multiprocessors = device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  std::size_t memory_bytes = 0;
  check(driver, driver.cuDeviceTotalMem_v2(&memory_bytes, device), "cuDeviceTotalMem");
  properties.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  properties.l2_bytes = device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  properties.shared_bytes_per_block =
      device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  properties.memory_clock_khz = device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  properties.bus_width_bits = device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  properties.has_memory_pools = device_attribute(driver, device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
  return properties;
}

int host_memory_node(int ordinal) {
  // CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, which the headers and drivers of CUDA 12.0 lack.
  constexpr auto kHostNumaId = static_cast<CUdevice_attribute>(134);
  const Driver& driver = usable_driver();
  int node = -1;
  return driver.cuDeviceGetAttribute(&node, kHostNumaId, device_of(driver, ordinal)) == CUDA_SUCCESS ? node : -1;
}

void* retain_primary_context(int ordinal) {
  const Driver& driver = usable_driver();
  CUcontext context = nullptr;
  check(driver, driver.cuDevicePrimaryCtxRetain(&context, device_of(driver, ordinal)), "cuDevicePrimaryCtxRetain");
  return context;
}

void* current_context() noexcept {
  const Driver& driver = any_driver();
  CUcontext context = nullptr;
  if (driver.problem.empty()) driver.cuCtxGetCurrent(&context);
  return context;
}

void set_current_context(void* context) noexcept {
  const Driver& driver = any_driver();
  if (driver.problem.empty()) driver.cuCtxSetCurrent(static_cast<CUcontext>(context));
}

void synchronize_context() {
  const Driver& driver = usable_driver();
  check(driver, driver.cuCtxSynchronize(), "cuCtxSynchronize");
}

RelaxedCapture::RelaxedCapture() noexcept : previous_mode_(CU_STREAM_CAPTURE_MODE_RELAXED) {
  const Driver& driver = any_driver();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (driver.problem.empty() && driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) previous_mode_ = mode;
}

RelaxedCapture::~RelaxedCapture() {
  const Driver& driver = any_driver();
  auto mode = static_cast<CUstreamCaptureMode>(previous_mode_);
  if (driver.problem.empty()) driver.cuThreadExchangeStreamCaptureMode(&mode);
}

LoadedKernel load_kernel(const std::vector<std::byte>& code, bool is_ptx, const char* entry, int ordinal,
                         const std::string& name) {
  const Driver& driver = usable_driver();
  const CUdevice device = device_of(driver, ordinal);
  CUlibrary library = nullptr;
  std::array<char, 4096> log{};
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUresult result = driver.cuLibraryLoadData(&library, code.data(), options.data(), values.data(), is_ptx ? 2 : 0,
                                             nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) {
    std::string text = meaning(driver, result);
    if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_NO_BINARY_FOR_GPU)
      text += fmt::format(
          "; the driver is for CUDA {}.{} and may be older than the NVRTC that compiled this: use a newer driver, or "
          "set KILN_NVRTC_PATH to a libnvrtc of the "
          "driver's CUDA version",
          driver.version / 1000, driver.version % 1000 / 10);
    if (log[0] != '\0') text += fmt::format("\n{}", log.data());
    throw DeviceError(fmt::format("cuLibraryLoadData (kernel {})", name), static_cast<int>(result), text);
  }
  CUkernel kernel = nullptr;
  result = driver.cuLibraryGetKernel(&kernel, library, entry);
  if (result != CUDA_SUCCESS)
    fail(driver, result, fmt::format("cuLibraryGetKernel (kernel {}, symbol {})", name, entry));

  // Under lazy loading the code would reach the device at the first launch, which may be inside a stream capture.
  CUfunction function = nullptr;
  check(driver, driver.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  if (driver.func_load != nullptr) check(driver, driver.func_load(function), "cuFuncLoad");

  LoadedKernel loaded;
  loaded.kernel = kernel;
  loaded.registers = kernel_attribute(driver, kernel, device, CU_FUNC_ATTRIBUTE_NUM_REGS);
  loaded.static_shared_bytes = kernel_attribute(driver, kernel, device, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  loaded.local_bytes = kernel_attribute(driver, kernel, device, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  loaded.max_threads_per_block = kernel_attribute(driver, kernel, device, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  loaded.cluster = {cluster_extent(driver, kernel, device, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
                    cluster_extent(driver, kernel, device, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
                    cluster_extent(driver, kernel, device, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
  return loaded;
}

void allow_shared_bytes(void* kernel, int ordinal, std::int32_t size_bytes) {
  const Driver& driver = usable_driver();
  check(driver,
        driver.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size_bytes,
                                    static_cast<CUkernel>(kernel), device_of(driver, ordinal)),
        "cuKernelSetAttribute");
}

void launch(void* kernel, const LaunchShape& shape, void* const* parameters, void* stream, const std::string& name) {
  // A loaded kernel is proof that the driver works, unless a fork came in between.
  const Driver& driver = is_lost_in_fork(ForkLoss::cuda_driver) ? usable_driver() : any_driver();
  CUlaunchConfig config;
  config.gridDimX = shape.grid_x;
  config.gridDimY = shape.grid_y;
  config.gridDimZ = shape.grid_z;
  config.blockDimX = shape.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream_of(stream);
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
      driver.cuLaunchKernelEx(&config, static_cast<CUfunction>(kernel), const_cast<void**>(parameters), nullptr);
  if (result != CUDA_SUCCESS) [[unlikely]]
    fail(driver, result,
         fmt::format("cuLaunchKernelEx (kernel {}, grid {}x{}x{}, {} threads, {} bytes of shared memory)", name,
                     shape.grid_x, shape.grid_y, shape.grid_z, shape.threads, shape.shared_bytes));
}

void encode_tensor_map(void* encoded, const TensorMap& map, void* address) {
  static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) <= 128);
  // Both enumerations count as the driver's do.
  static_assert(static_cast<int>(TensorMapSwizzle::b128) == CU_TENSOR_MAP_SWIZZLE_128B &&
                static_cast<int>(TensorMapPromotion::b256) == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  const Driver& driver = usable_driver();
  std::array<cuuint64_t, kMaxTensorMapRank> extents{};
  std::array<cuuint64_t, kMaxTensorMapRank - 1> strides_bytes{};
  std::array<cuuint32_t, kMaxTensorMapRank> box{}, element_strides{};
  std::copy(map.extents.begin(), map.extents.end(), extents.begin());
  std::copy(map.strides_bytes.begin(), map.strides_bytes.end(), strides_bytes.begin());
  std::copy(map.box.begin(), map.box.end(), box.begin());
  element_strides.fill(1);
  const CUresult result = driver.cuTensorMapEncodeTiled(
      static_cast<CUtensorMap*>(encoded), tensor_map_type(map), static_cast<cuuint32_t>(map.rank), address,
      extents.data(), strides_bytes.data(), box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      static_cast<CUtensorMapSwizzle>(map.swizzle), static_cast<CUtensorMapL2promotion>(map.l2_promotion),
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(driver, result,
         fmt::format("cuTensorMapEncodeTiled ({}, address {}, extents {}, strides {}, box {})", name(map.dtype),
                     address, fmt::join(std::span(extents).first(static_cast<std::size_t>(map.rank)), "x"),
                     fmt::join(std::span(strides_bytes).first(static_cast<std::size_t>(map.rank - 1)), ", "),
                     fmt::join(std::span(box).first(static_cast<std::size_t>(map.rank)), "x")));
}

void replace_address(void* encoded, void* address) {
  const Driver& driver = usable_driver();
  check(driver, driver.cuTensorMapReplaceAddress(static_cast<CUtensorMap*>(encoded), address),
        "cuTensorMapReplaceAddress");
}

}  // namespace kiln::cuda
