#pragma once

namespace kiln {

/// Whether this build has NVTX, NVIDIA's marks for Nsight and other tools. Where no tool listens a mark costs a few
/// nanoseconds.
bool has_nvtx() noexcept;
/// Opens a range on this thread's line of the tool's view; ranges nest.
void push_nvtx_range(const char* name) noexcept;
/// Closes the innermost one.
void pop_nvtx_range() noexcept;

}  // namespace kiln
