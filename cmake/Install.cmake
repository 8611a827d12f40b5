# Install rules: libkiln.so, the compilers' shared objects beside it, the `kiln` command, the headers, and a CMake package for find_package(kiln).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(kiln PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(kiln PROPERTIES INSTALL_RPATH $ORIGIN)
file(RELATIVE_PATH library_from_binary ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(kiln_cli PROPERTIES INSTALL_RPATH $ORIGIN/${library_from_binary})
target_compile_features(kiln INTERFACE cxx_std_20)
target_include_directories(kiln INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS kiln EXPORT kilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kiln_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# libkiln.so looks for these two in its own directory; nobody links them.
foreach(plugin kiln_clang kiln_orc)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
if(TARGET kiln_precompiled_headers)
  get_target_property(precompiled_headers kiln_precompiled_headers FILES)
  install(FILES ${precompiled_headers} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

install(CODE "set(KILN_SOURCE_ROOT \"${PROJECT_SOURCE_DIR}\")
set(KILN_HEADER_DESTINATION \"${CMAKE_INSTALL_INCLUDEDIR}/kiln\")
set(KILN_STAGING \"${PROJECT_BINARY_DIR}/install-headers\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/InstallHeaders.cmake)

set(package_destination ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
install(EXPORT kilnTargets NAMESPACE kiln:: DESTINATION ${package_destination})
configure_package_config_file(cmake/kilnConfig.cmake.in ${PROJECT_BINARY_DIR}/kilnConfig.cmake INSTALL_DESTINATION ${package_destination})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kilnConfig.cmake ${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake DESTINATION ${package_destination})
