# Clang and LLVM 19, and the shared objects that hold what Kiln uses of them.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(FATAL_ERROR "Kiln's CPU target generates x86-64 code only; configure with -DKILN_CPU=OFF on ${CMAKE_SYSTEM_PROCESSOR}")
endif()
find_package(LLVM 19.1 CONFIG REQUIRED HINTS /usr/lib/llvm-19)
find_library(KILN_CLANG_FRONTEND_ARCHIVE libclangFrontend.a HINTS ${LLVM_LIBRARY_DIRS} REQUIRED NO_DEFAULT_PATH)
# lld relocates these large objects three times as fast as GNU ld and can pack their relocations, which shortens loading; nothing depends on it.
find_program(KILN_LLD NAMES ld.lld PATHS ${LLVM_TOOLS_BINARY_DIR} NO_DEFAULT_PATH)

# kiln_add_llvm_library(<target> OUTPUT_NAME <name> SOURCES ... [CLANG <clang libraries>] COMPONENTS <LLVM components>)
# LLVM is linked statically and its symbols stay inside: the process may hold another LLVM (torch and Mesa bring theirs), and only the functions
# that kernels really use need to be mapped.
function(kiln_add_llvm_library target)
  cmake_parse_arguments(arg "" "OUTPUT_NAME" "SOURCES;CLANG;COMPONENTS" ${ARGN})
  add_library(${target} SHARED ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF OUTPUT_NAME ${arg_OUTPUT_NAME} CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(${target} PRIVATE ${LLVM_DEFINITIONS_LIST})
  llvm_map_components_to_libnames(llvm_libraries ${arg_COMPONENTS})
  set(clang_archives "")
  foreach(library IN LISTS arg_CLANG)
    list(APPEND clang_archives ${LLVM_LIBRARY_DIR}/lib${library}.a)
  endforeach()
  target_link_libraries(${target} PRIVATE kiln_warnings ${clang_archives} ${llvm_libraries} ${CMAKE_DL_LIBS})
  target_link_options(${target} PRIVATE -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-s)
  # Clang leaves the sanitizers' own functions to the program.
  if(NOT (KILN_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  if(KILN_LLD)
    # GCC knows no versioned linker names; -B makes it find this LLVM's.
    cmake_path(GET KILN_LLD PARENT_PATH lld_folder)
    target_link_options(${target} PRIVATE -B${lld_folder} -fuse-ld=lld -Wl,-z,pack-relative-relocs)
  endif()
endfunction()
