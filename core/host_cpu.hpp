#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

/// LLVM's name of this machine's CPU ("znver5"), found through cpuid; "x86-64" for one that is not known. A hint for
/// scheduling only: which instructions may be used is said by the features alone.
std::string host_cpu_name();

/// The instruction sets that this machine and its operating system offer, as LLVM's sorted feature string
/// "+avx,+avx2,...".
const std::string& host_cpu_features();

/// Those of `offered` that `chosen` names, in the same form. `chosen` is a comma-separated list of "+name"s and of
/// x86-64-v2, x86-64-v3 and x86-64-v4, the levels of the x86-64 psABI, which stand for all of theirs that Kiln knows
/// of. UsageError(value) for a name that is none, and for one that `offered` lacks.
std::string choose_cpu_features(std::string_view chosen, std::string_view offered);

/// Those of this machine that kernels may use: KILN_CPU_FEATURES's, all where it is unset.
const std::string& usable_cpu_features();

/// Bytes of the last level of the caches that this machine's first processor reads through, as the system says; 0 where
/// it does not.
std::int64_t host_last_level_cache_bytes();

}  // namespace kiln
