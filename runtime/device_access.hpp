#pragma once

#include "core/device.hpp"

namespace kiln {

/// DeviceError saying why `device`, a CUDA device, cannot be used: no driver, a build without the NVIDIA target, or no
/// such ordinal. Returns when it can. In a build without the NVIDIA target it never returns for a CUDA device.
void require_cuda_device(Device device);

}  // namespace kiln
