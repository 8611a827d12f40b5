#pragma once

#include <string>

/// Registers op "benchmark_kv_series" over the kernels in `path` (python/kiln/experiments/kv_series.cuh), CUDA only: as
/// sparse_kv_gather(dst, src, indices), for u8 rows that are a multiple of 16 bytes and lie at such addresses, and i32
/// indices. Tunable STEP says which of the series: 0 bytewise, 1 16 bytes a thread, 2 a warp to a row, 3 rows in flight
/// (ROWS of them), 4 a contiguous read of the same number of bytes, which needs src to have as many rows as there are
/// pairs.
void register_kv_series_op(const std::string& path);
