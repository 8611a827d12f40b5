#pragma once

namespace kiln::cuda {

/// The primary context of a device, which torch and the CUDA runtime use too; retained on first use and for the life of
/// the process. DeviceError.
void* primary_context(int ordinal);

}  // namespace kiln::cuda
