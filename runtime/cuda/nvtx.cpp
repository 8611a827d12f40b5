#include "runtime/nvtx.hpp"

#include <nvtx3/nvToolsExt.h>

namespace kiln {

bool has_nvtx() noexcept {
  return true;
}

void push_nvtx_range(const char* name) noexcept {
  nvtxRangePushA(name);
}

void pop_nvtx_range() noexcept {
  nvtxRangePop();
}

}  // namespace kiln
