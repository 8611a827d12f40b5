# Runs at install time. Public is what kiln.hpp reaches, and nothing else: the list is computed, never kept by hand. In the tree includes are relative to
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

file(REMOVE_RECURSE ${KILN_STAGING})
kiln_stage_header(kiln.hpp)
kiln_stage_header(compiler/tl/tl.hpp)
file(WRITE ${KILN_STAGING}/tl.hpp "#pragma once\n\n#include \"kiln/compiler/tl/tl.hpp\"\n")
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${KILN_HEADER_DESTINATION} TYPE DIRECTORY FILES ${KILN_STAGING}/)
