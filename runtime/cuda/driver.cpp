#include "runtime/cuda/driver.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "core/errors.hpp"
#include "runtime/cuda/library.hpp"
#include "runtime/process_fork.hpp"

namespace kiln::cuda {
namespace {

// By their names in the library: the ones that cuda.h's macros may redirect (cuMemAlloc is cuMemAlloc_v2) are written
// out, so that the version which is looked up is the version whose prototype is used, whatever toolkit this is built
// with.
#define KILN_DRIVER_FUNCTIONS(FUNCTION) \
  FUNCTION(cuInit)                      \
  FUNCTION(cuDriverGetVersion)          \
  FUNCTION(cuGetErrorName)              \
  FUNCTION(cuGetErrorString)            \
  FUNCTION(cuDeviceGetCount)            \
  FUNCTION(cuDeviceGet)                 \
  FUNCTION(cuDeviceGetName)             \
  FUNCTION(cuDeviceGetAttribute)        \
  FUNCTION(cuDeviceTotalMem_v2)         \
  FUNCTION(cuDevicePrimaryCtxRetain)    \
  FUNCTION(cuCtxGetCurrent)             \
  FUNCTION(cuCtxSetCurrent)             \
  FUNCTION(cuCtxSynchronize)            \
  FUNCTION(cuThreadExchangeStreamCaptureMode)

/// What libcuda offers, or why it cannot be used.
struct Driver {
// A declared name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_DRIVER_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE

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
  for (const auto resolve :
       {resolve_kernel_functions, resolve_memory_functions, resolve_stream_functions, resolve_graph_functions})
    if (const char* name = resolve(library); name != nullptr && missing == nullptr) missing = name;
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

}  // namespace

void require_driver() {
  usable_driver();
}

void fail_call(int code, const std::string& call) {
  fail(any_driver(), static_cast<CUresult>(code), call);
}

std::string meaning(int code) {
  return meaning(any_driver(), static_cast<CUresult>(code));
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

}  // namespace kiln::cuda
