if(KILN_SANITIZE)
  # A finding ends the process, so that a test fails on it.
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${KILN_SANITIZE})
  # Clang's check of a called function's type reads what lies in front of the function: a kernel compiled at run time has nothing there.
  add_compile_options($<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  # GCC 12 sees uninitialised members in moved std::variants once their checks are instrumented; the plain build, where the warning stays on, has none.
  add_compile_options(-Wno-maybe-uninitialized)
endif()
if(KILN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "Kiln: KILN_FUZZ needs Clang, for libFuzzer (cmake --preset fuzz)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
