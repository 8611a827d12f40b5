#pragma once

#include <cstdint>
#include <memory>

#include "compiler/compile_request.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/kernel_cache.hpp"
#include "registry/plan/plan.hpp"
#include "registry/plan/tuned_config.hpp"

namespace kiln {

/// Dynamic shared memory that a launch gives a kernel: what it states, or where that is 0 what the kernel needs.
/// UsageError(value) for less than the kernel needs, since on the GPU its first access beyond would be an illegal
/// address, which costs the process its context, and for more than `available_bytes`, all that a program of this kernel
/// may have on its device.
std::int32_t launch_shared_bytes(const CompileRequest& request, const LoadedKernel& kernel, std::int32_t stated_bytes,
                                 std::int32_t available_bytes);

/// Whether a plan may be made of kernels that are not loaded yet.
enum class Loading {
  allowed,
  anew,     ///< a copy of each kernel for this plan alone, at a place in memory of its own
  refused,  ///< UsageError(value): the stream is being captured
};

/// Chooses, compiles for `target` and loads on its device what a call needs. A tuned config that does not compile or
/// load gives way to the default.
std::shared_ptr<const Plan> build_plan(const Call& call, const Target& target, const Config* given,
                                       const TunedLookup& tuned = {}, Loading loading = Loading::allowed,
                                       bool overlap_previous = false);

}  // namespace kiln
