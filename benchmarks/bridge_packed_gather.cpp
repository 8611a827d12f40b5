// The C interface to PackedGather, for benchmarks/gpu_kv_gather.py.

#include <tbb/global_control.h>

#include <cstddef>
#include <memory>

#include "benchmarks/bridge.hpp"
#include "offload/packed_gather.hpp"

extern "C" {

/// On CUDA device 0.
void* kiln_bench_packed_gather_new() {
  return guarded(static_cast<void*>(nullptr),
                 []() -> void* { return std::make_unique<kiln::PackedGather>(kiln::Device::cuda()).release(); });
}

void kiln_bench_packed_gather_free(void* gather) {
  const std::unique_ptr<kiln::PackedGather> owned(static_cast<kiln::PackedGather*>(gather));
}

/// `threads` of the CPU, this one among them, pack.
int kiln_bench_packed_gather_run(void* gather, const KilnBenchTensor* dst, const KilnBenchTensor* src,
                                 const KilnBenchTensor* indices, int threads, void* stream) {
  return guarded(1, [&] {
    using tbb::global_control;
    const global_control most(global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
    const auto borrowed = [](const KilnBenchTensor* tensor) { return kiln::Tensor(view_of(*tensor), nullptr); };
    (*static_cast<kiln::PackedGather*>(gather))(borrowed(dst), borrowed(src), borrowed(indices),
                                                {kiln::Device::cuda(), stream});
    return 0;
  });
}
}
