# What the wheel holds besides the package's Python files, which scikit-build-core adds: `cmake --install --component python` puts it into ./kiln.
# Everything is inside the package, so that a wheel works wherever it is unpacked: libkiln.so finds the compilers' shared objects beside itself.
set(python_component COMPONENT python EXCLUDE_FROM_ALL)
set_target_properties(kiln_python PROPERTIES INSTALL_RPATH $ORIGIN/lib)
install(TARGETS kiln_python LIBRARY DESTINATION kiln ${python_component})
install(TARGETS kiln LIBRARY DESTINATION kiln/lib ${python_component} NAMELINK_SKIP)
foreach(plugin kiln_clang kiln_orc)
  if(TARGET ${plugin})
    set_target_properties(${plugin} PROPERTIES INSTALL_RPATH $ORIGIN)
    install(TARGETS ${plugin} LIBRARY DESTINATION kiln/lib ${python_component})
  endif()
endforeach()
if(TARGET kiln_precompiled_headers)
  install(FILES ${precompiled_headers} DESTINATION kiln/lib ${python_component})
endif()

# Debian's libfmt and libzstd go along, by the names that they are looked up by: another system has other versions of them, or none. What is
# left to the system is glibc, GCC's runtime and zlib, as with other wheels. Where the process has loaded a library of the same name already, that one serves.
install(CODE "set(KILN_BUNDLE_LIBRARIES \"$<TARGET_FILE:kiln>\" \"$<TARGET_FILE:kiln_python>\" \"$<$<BOOL:${KILN_CPU}>:$<TARGET_FILE:kiln_clang>>\")" ${python_component})
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/BundleLibraries.cmake ${python_component})
