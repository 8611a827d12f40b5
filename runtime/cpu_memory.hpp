#pragma once

#include <cstdint>
#include <memory>

namespace kiln {

/// Memory of the CPU, aligned to 64 bytes, in huge pages where it is large. DeviceError when memory is short.
std::shared_ptr<void> allocate_cpu(std::int64_t size_bytes);

}  // namespace kiln
