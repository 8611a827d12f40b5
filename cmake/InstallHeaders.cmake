# Runs at install time. Public is what kiln.hpp reaches, and nothing else: the list is computed, never kept by hand, but for the paths of headers that moved. In the tree includes are relative to
# the root ("core/shape.hpp"); installed they become "kiln/core/shape.hpp", so that a core/ folder of the user's own cannot stand in the way.
# The tile language goes to <kiln/tl.hpp> with what it includes: kernels are compiled from the copy inside the library, these are for editors and people.

# Copies `path` (relative to the source root) and all it includes into the staging tree, each once.
function(kiln_stage_header path)
  if(EXISTS ${KILN_STAGING}/${path})
    return()
  endif()
  file(READ ${KILN_SOURCE_ROOT}/${path} text)
  string(REGEX MATCHALL "\n#include \"[^\"]+\"" includes "${text}")
  string(REGEX REPLACE "\n#include \"([^\"]+)\"" "\n#include \"kiln/\\1\"" text "${text}")
  file(WRITE ${KILN_STAGING}/${path} "${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "\n#include \"(.*)\"" "\\1" included "${include}")
    if(NOT EXISTS ${KILN_SOURCE_ROOT}/${included})
      message(FATAL_ERROR "${path} includes \"${included}\", which is not a header of Kiln")
    endif()
    kiln_stage_header(${included})
  endforeach()
endfunction()

# Paths that users may include from earlier versions, where the headers lie no more: old path, then the headers that have what it had. Never to be reused.
set(moved_headers
  "registry/comparison.hpp        registry/inspection/comparison.hpp"
  "registry/debug_op.hpp          registry/inspection/debug_op.hpp"
  "registry/dispatch.hpp          registry/dispatch/dispatch.hpp"
  "registry/measured_peak.hpp     registry/inspection/measured_peak.hpp"
  "registry/pack_weight.hpp       registry/dispatch/pack_weight.hpp"
  "registry/profile_report.hpp    registry/profiling/profile_report.hpp"
  "registry/profiler.hpp          registry/profiling/profiler.hpp"
  "registry/registry.hpp          registry/plan/registry.hpp registry/user_ops/user_op.hpp"
  "registry/tensor_statistics.hpp registry/inspection/tensor_statistics.hpp"
  "registry/tuning.hpp            registry/tuning/tuning.hpp"
  "registry/tuning_policy.hpp     registry/plan/tuning_policy.hpp"
  "registry/user_kernel.hpp       registry/user_ops/user_kernel.hpp"
  "registry/warm_up.hpp           registry/dispatch/warm_up.hpp"
  "runtime/offload_pipeline.hpp   runtime/transfer/offload_pipeline.hpp"
  "runtime/offload_schedule.hpp   runtime/transfer/offload_schedule.hpp"
  "runtime/pinned_pool.hpp        runtime/transfer/pinned_pool.hpp")

# Puts a header at `old` that includes the others, which kiln.hpp must have reached.
function(kiln_forward_header old)
  if(EXISTS ${KILN_STAGING}/${old})
    message(FATAL_ERROR "${old} is a header again; take it out of the moved ones")
  endif()
  set(text "#pragma once\n\n")
  foreach(new IN LISTS ARGN)
    if(NOT EXISTS ${KILN_STAGING}/${new})
      message(FATAL_ERROR "${old} is to include ${new}, which is not installed")
    endif()
    string(APPEND text "#include \"kiln/${new}\"\n")
  endforeach()
  file(WRITE ${KILN_STAGING}/${old} "${text}")
endfunction()

file(REMOVE_RECURSE ${KILN_STAGING})
kiln_stage_header(kiln.hpp)
kiln_stage_header(compiler/tl/tl.hpp)
foreach(moved IN LISTS moved_headers)
  separate_arguments(moved)
  kiln_forward_header(${moved})
endforeach()
file(WRITE ${KILN_STAGING}/tl.hpp "#pragma once\n\n#include \"kiln/compiler/tl/tl.hpp\"\n")
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${KILN_HEADER_DESTINATION} TYPE DIRECTORY FILES ${KILN_STAGING}/)
