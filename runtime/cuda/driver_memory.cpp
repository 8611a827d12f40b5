#include "runtime/cuda/driver.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <limits>

#include "runtime/backend.hpp"
#include "runtime/cuda/library.hpp"
#include "runtime/process_fork.hpp"

namespace kiln {
namespace cuda {
namespace {

// By their names in the library, as in driver.cpp.
#define KILN_MEMORY_FUNCTIONS(FUNCTION) \
  FUNCTION(cuDeviceGet)                 \
  FUNCTION(cuDeviceGetDefaultMemPool)   \
  FUNCTION(cuMemPoolSetAttribute)       \
  FUNCTION(cuMemPoolTrimTo)             \
  FUNCTION(cuMemPoolGetAttribute)       \
  FUNCTION(cuMemAllocAsync)             \
  FUNCTION(cuMemFreeAsync)              \
  FUNCTION(cuMemAlloc_v2)               \
  FUNCTION(cuMemFree_v2)                \
  FUNCTION(cuMemGetInfo_v2)             \
  FUNCTION(cuMemHostRegister_v2)        \
  FUNCTION(cuMemHostUnregister)         \
  FUNCTION(cuPointerGetAttributes)      \
  FUNCTION(cuMemcpyHtoDAsync_v2)        \
  FUNCTION(cuMemcpyDtoHAsync_v2)        \
  FUNCTION(cuMemcpyDtoDAsync_v2)        \
  FUNCTION(cuMemcpyPeerAsync)           \
  FUNCTION(cuMemsetD8Async)

struct Functions {
// A declared name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_MEMORY_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
};

/// Filled while the driver is opened. Whoever holds a handle of the driver's knows that it is.
constinit Functions functions;

CUstream stream_of(void* stream) {
  return static_cast<CUstream>(stream);
}
CUdeviceptr address_of(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}
CUdevice device_of(int ordinal) {
  CUdevice device = 0;
  check(functions.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

}  // namespace

const char* resolve_memory_functions(void* library) noexcept {
  const char* missing = nullptr;
#define KILN_RESOLVE(name)                                                            \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr && missing == nullptr) missing = #name;
  KILN_MEMORY_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
  return missing;
}

void prepare_memory_pool(int ordinal) {
  require_driver();
  CUmemoryPool pool = nullptr;
  check(functions.cuDeviceGetDefaultMemPool(&pool, device_of(ordinal)), "cuDeviceGetDefaultMemPool");
  cuuint64_t threshold_bytes = UINT64_MAX;
  check(functions.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold_bytes),
        "cuMemPoolSetAttribute");
}

void trim_memory_pool(int ordinal) {
  require_driver();
  CUmemoryPool pool = nullptr;
  check(functions.cuDeviceGetDefaultMemPool(&pool, device_of(ordinal)), "cuDeviceGetDefaultMemPool");
  check(functions.cuMemPoolTrimTo(pool, 0), "cuMemPoolTrimTo");
}

PoolUsage memory_pool_usage(int ordinal) {
  require_driver();
  CUmemoryPool pool = nullptr;
  check(functions.cuDeviceGetDefaultMemPool(&pool, device_of(ordinal)), "cuDeviceGetDefaultMemPool");
  cuuint64_t reserved_bytes = 0, used_bytes = 0;
  check(functions.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved_bytes),
        "cuMemPoolGetAttribute");
  check(functions.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used_bytes), "cuMemPoolGetAttribute");
  return {static_cast<std::int64_t>(reserved_bytes), static_cast<std::int64_t>(used_bytes)};
}

void* try_allocate_async(std::int64_t size_bytes, void* stream) {
  require_driver();
  CUdeviceptr memory = 0;
  const CUresult result = functions.cuMemAllocAsync(&memory, static_cast<std::size_t>(size_bytes), stream_of(stream));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  check(result, "cuMemAllocAsync");
  return reinterpret_cast<void*>(memory);
}

void* try_allocate(std::int64_t size_bytes) {
  require_driver();
  CUdeviceptr memory = 0;
  const CUresult result = functions.cuMemAlloc_v2(&memory, static_cast<std::size_t>(size_bytes));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  check(result, "cuMemAlloc");
  return reinterpret_cast<void*>(memory);
}

int free_async(void* memory, void* stream) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return CUDA_ERROR_NOT_INITIALIZED;
  return static_cast<int>(functions.cuMemFreeAsync(address_of(memory), stream_of(stream)));
}

int free_now(void* memory) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return CUDA_ERROR_NOT_INITIALIZED;
  return static_cast<int>(functions.cuMemFree_v2(address_of(memory)));
}

std::int64_t free_memory_bytes() noexcept {
  std::size_t free_bytes = 0, total_bytes = 0;
  if (!driver_problem().empty() || functions.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) return 0;
  return static_cast<std::int64_t>(free_bytes);
}

bool register_host(void* memory, std::size_t size_bytes) {
  require_driver();
  constexpr unsigned kForAll = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  CUresult result = functions.cuMemHostRegister_v2(memory, size_bytes, kForAll);
  if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) return false;
  // Memory that may not be written is refused without this flag, and with different codes by different drivers. Asking
  // the system for the map's rights first was the alternative: reading a file with a line for each of thousands of
  // maps.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY &&
      functions.cuMemHostRegister_v2(memory, size_bytes, kForAll | CU_MEMHOSTREGISTER_READ_ONLY) == CUDA_SUCCESS)
    result = CUDA_SUCCESS;
  if (result != CUDA_SUCCESS)
    fail_call(static_cast<int>(result), fmt::format("cuMemHostRegister ({} bytes at {})", size_bytes, memory));
  return true;
}

int unregister_host(void* memory) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return CUDA_ERROR_NOT_INITIALIZED;
  return static_cast<int>(functions.cuMemHostUnregister(memory));
}

void copy_host_to_device(void* destination, const void* source, std::size_t size_bytes, void* stream) {
  require_driver();
  check(functions.cuMemcpyHtoDAsync_v2(address_of(destination), source, size_bytes, stream_of(stream)),
        "cuMemcpyHtoDAsync");
}

void copy_device_to_host(void* destination, const void* source, std::size_t size_bytes, void* stream) {
  require_driver();
  check(functions.cuMemcpyDtoHAsync_v2(destination, address_of(source), size_bytes, stream_of(stream)),
        "cuMemcpyDtoHAsync");
}

void copy_on_device(void* destination, const void* source, std::size_t size_bytes, void* stream) {
  require_driver();
  check(functions.cuMemcpyDtoDAsync_v2(address_of(destination), address_of(source), size_bytes, stream_of(stream)),
        "cuMemcpyDtoDAsync");
}

void copy_between_devices(void* destination, void* destination_context, const void* source, void* source_context,
                          std::size_t size_bytes, void* stream) {
  require_driver();
  check(functions.cuMemcpyPeerAsync(address_of(destination), static_cast<CUcontext>(destination_context),
                                    address_of(source), static_cast<CUcontext>(source_context), size_bytes,
                                    stream_of(stream)),
        "cuMemcpyPeerAsync");
}

void fill_bytes(void* destination, std::uint8_t value, std::size_t size_bytes, void* stream) {
  require_driver();
  check(functions.cuMemsetD8Async(address_of(destination), value, size_bytes, stream_of(stream)), "cuMemsetD8Async");
}

}  // namespace cuda

CudaBackend::LockedRange CudaBackend::find_locked_range(const void* host_memory) {
  cuda::require_driver();
  CUmemorytype type{};
  CUdeviceptr device_address = 0, begin = 0;
  std::size_t size_bytes = 0;
  std::array<CUpointer_attribute, 4> attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                                CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 4> values{&type, &device_address, &begin, &size_bytes};
  // One question for all: asking for the first and for the last byte's address took 0.26 us, this takes 0.19.
  cuda::check(cuda::functions.cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                                     cuda::address_of(host_memory)),
              "cuPointerGetAttributes");
  if (type != CU_MEMORYTYPE_HOST || device_address == 0) return {};
  // Where a device has addresses of its own for host memory the driver may mean either by `begin`. If it is not the one
  // that this goes by, the difference is too large, or wraps round to be, and the first byte has to speak for all.
  const std::size_t offset_bytes = device_address - begin;
  return {reinterpret_cast<std::byte*>(device_address), offset_bytes < size_bytes
                                                            ? static_cast<std::int64_t>(size_bytes - offset_bytes)
                                                            : std::numeric_limits<std::int64_t>::max()};
}

int CudaBackend::device_of_memory(const void* memory) {
  cuda::require_driver();
  CUmemorytype type{};
  int ordinal = -1;
  std::array<CUpointer_attribute, 2> attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 2> values{&type, &ordinal};
  cuda::check(cuda::functions.cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                                     cuda::address_of(memory)),
              "cuPointerGetAttributes");
  return type == CU_MEMORYTYPE_DEVICE ? ordinal : -1;  // the driver calls managed memory the device's
}

std::int64_t CudaBackend::bytes_left_in_allocation(const void* memory) {
  cuda::require_driver();
  CUmemorytype type{};
  CUdeviceptr begin = 0;
  std::size_t size_bytes = 0;
  std::array<CUpointer_attribute, 3> attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 3> values{&type, &begin, &size_bytes};
  cuda::check(cuda::functions.cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                                     cuda::address_of(memory)),
              "cuPointerGetAttributes");
  return type == CU_MEMORYTYPE_DEVICE ? static_cast<std::int64_t>(size_bytes - (cuda::address_of(memory) - begin)) : 0;
}

}  // namespace kiln
