#pragma once

#include <memory>

#include "compiler/compile_request.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/plan.hpp"
#include "registry/plan/tuned_config.hpp"

namespace kiln {

/// UsageError(value) for a launch that gives a kernel none of the dynamic shared memory that it uses: on the GPU its
/// first access would be an illegal address, which costs the process its context.
void check_shared_memory(const CompileRequest& request, bool takes_dynamic_shared, const LaunchGeometry& geometry);

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
