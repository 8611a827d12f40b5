#pragma once

#include <string>

/// Registers op "benchmark_read" over the kernel in `path` (benchmarks/read_kernel.hpp): input x, dense f32; output,
/// one number that is not written.
void register_read_op(const std::string& path);
