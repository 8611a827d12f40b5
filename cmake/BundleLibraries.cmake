# Runs at install time: copies the shared libraries that KILN_BUNDLE_LIBRARIES need, but for the system's and Kiln's own, to kiln/lib, each with the
# licence that Debian keeps of it.
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${KILN_BUNDLE_LIBRARIES} RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^(ld-linux|linux-vdso|libc\\.|libm\\.|libdl\\.|librt\\.|libpthread\\.|libgcc_s\\.|libstdc\\+\\+\\.|libz\\.|libpython|libkiln)")
if(missing)
  message(FATAL_ERROR "the wheel would need libraries that this machine has not: ${missing}")
endif()
foreach(library IN LISTS found)
  cmake_path(GET library FILENAME name)
  file(REAL_PATH ${library} file)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/kiln/lib TYPE FILE FILES ${file} RENAME ${name})
  string(REGEX REPLACE "\\.so.*" "" stem ${name})
  file(GLOB licences /usr/share/doc/${stem}[0-9]*/copyright)
  foreach(licence IN LISTS licences)
    cmake_path(GET licence PARENT_PATH folder)
    cmake_path(GET folder FILENAME package)
    file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/kiln/lib/licenses TYPE FILE FILES ${licence} RENAME ${package}.txt)
  endforeach()
endforeach()
