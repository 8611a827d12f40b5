#pragma once

#include <memory>
#include <vector>

#include "runtime/stream.hpp"

namespace kiln::python {

/// Keeps what owns the memory of a transfer until what `stream`, of a GPU, has so far is done, and lets go of what is
/// done by now. Without the GIL.
void hold_until_done(Stream stream, std::vector<std::shared_ptr<void>> owners);
/// Lets go of what is done. For whoever has just waited; without the GIL.
void release_done_transfers() noexcept;
/// Waits until no transfer on `device` is held any more. DeviceError. Without the GIL.
void wait_for_transfers(Device device);

}  // namespace kiln::python
