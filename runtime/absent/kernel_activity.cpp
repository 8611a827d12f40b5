// Where the CUDA toolkit's headers are not there, or leave CUPTI out, as some toolkits do.

#include "runtime/kernel_activity.hpp"

#include "core/errors.hpp"

namespace kiln {

KernelActivity::KernelActivity(std::size_t) {
  throw DeviceError("timing kernels by CUPTI", 0,
                    "this build has no CUPTI: build where the CUDA toolkit's headers lie, cupti.h among them");
}

KernelActivity::~KernelActivity() = default;

bool KernelActivity::flush() {
  return is_active_;
}

bool KernelActivity::is_complete() const {
  return !is_active_;
}

std::vector<LaunchActivity> KernelActivity::launches() const {
  return {};
}

std::vector<MemoryActivity> KernelActivity::memory() const {
  return {};
}

}  // namespace kiln
