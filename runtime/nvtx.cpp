#include "runtime/nvtx.hpp"

// Part of the CUDA toolkit, but some packages of its headers leave it out.
#if KILN_HAS_CUDA && __has_include(<nvtx3/nvToolsExt.h>)
#define KILN_HAS_NVTX 1
#include <nvtx3/nvToolsExt.h>
#endif

namespace kiln {

#if KILN_HAS_NVTX
bool has_nvtx() noexcept {
  return true;
}

void push_nvtx_range(const char* name) noexcept {
  nvtxRangePushA(name);
}

void pop_nvtx_range() noexcept {
  nvtxRangePop();
}
#else
bool has_nvtx() noexcept {
  return false;
}

void push_nvtx_range(const char*) noexcept {}

void pop_nvtx_range() noexcept {}
#endif

}  // namespace kiln
