#pragma once

#include "compiler/tl/program.hpp"

// Defined by whoever loads the kernel: the first does not come back, the second is the C library's.
extern "C" [[noreturn]] void kiln_host_assertion_failed(const char* message, const char* file, int line,
                                                        const long long* program);
extern "C" int printf(const char* format, ...);

namespace kiln::tl {

KILN_DEVICE bool is_first_thread() {
  return true;
}

[[noreturn]] KILN_DEVICE void assertion_failed(const char* message, const char* file, int line) {
  const long long program[3] = {program_id(0), program_id(1), program_id(2)};
  kiln_host_assertion_failed(message, file, line, program);
}

}  // namespace kiln::tl
