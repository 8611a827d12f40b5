#pragma once

#include "compiler/compile_request.hpp"

namespace kiln {

/// CompileError where a statement of the request's own files is longer than the compilers can follow: they recurse for
/// each unary minus, branch of an else-if chain, nested lambda and the like, and would take the process with them at
/// the end of their stack. Tables may be as long as they want.
void check_statement_lengths(const CompileRequest& request);

}  // namespace kiln
