#pragma once

#include <string>

#include "core/device.hpp"

namespace kiln::cli {

struct SelfTest {
  bool ok = false;
  std::string summary;  ///< "add compiled in 21 ms, right", or what went wrong
};

/// Compiles a small kernel anew (a cached one would hide a broken compiler), runs it on `device` and looks at its
/// result. Never throws.
SelfTest self_test(Device device) noexcept;

}  // namespace kiln::cli
