#pragma once

#include <string>

namespace kiln {

/// LLVM's name of this machine's CPU ("znver5"), found through cpuid; "x86-64" for one that is not known. A hint for
/// scheduling only: which instructions may be used is said by the features alone.
std::string host_cpu_name();

/// The instruction sets that this machine and its operating system offer, as LLVM's sorted feature string
/// "+avx,+avx2,...".
const std::string& host_cpu_features();

}  // namespace kiln
