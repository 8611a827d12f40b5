#pragma once

#include <string>

/// What the files that implement driver.hpp share. Each has a table of its own part of libcuda: one table for all
/// would have to be in a header, and with it cuda.h.
namespace kiln::cuda {

/// DeviceError saying why the driver cannot be used. When it returns, every table is filled.
void require_driver();
/// What a CUresult means.
std::string meaning(int code);
[[noreturn]] void fail_call(int code, const std::string& call);
/// Of a CUresult, whose 0 is success.
inline void check(int result, const char* call) {
  if (result != 0) [[unlikely]]
    fail_call(result, call);
}

/// Fill a file's table from the open library. The name of the first function that it lacks, or null.
const char* resolve_kernel_functions(void* library) noexcept;
const char* resolve_memory_functions(void* library) noexcept;
const char* resolve_stream_functions(void* library) noexcept;
const char* resolve_graph_functions(void* library) noexcept;

}  // namespace kiln::cuda
