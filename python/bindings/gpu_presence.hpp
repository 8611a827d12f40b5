#pragma once

#include <string_view>

#include "core/device.hpp"

namespace kiln::python {

/// DeviceError for a GPU that is absent: which devices there are, and what to do without it, which `advice` says.
/// Before the library is asked, which can only know the first.
void require_gpu(Device device, std::string_view advice);

/// The advice where the CPU does the same work.
inline constexpr std::string_view kCpuServesToo =
    "give the device \"cpu\", or none, and the same program runs over ordinary memory";

}  // namespace kiln::python
