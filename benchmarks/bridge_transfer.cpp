// The C interface to pinned memory, copies and offload pipelines, for benchmarks/gpu_kv_*.py.

#include <memory>
#include <stdexcept>
#include <vector>

#include "benchmarks/bridge.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/offload_pipeline.hpp"
#include "runtime/transfer/pinned_pool.hpp"

extern "C" {

void* kiln_bench_pool_new() {
  return guarded(static_cast<void*>(nullptr),
                 []() -> void* { return std::make_unique<kiln::PinnedPool>(kiln::Device::cuda()).release(); });
}

void kiln_bench_pool_free(void* pool) {
  const std::unique_ptr<kiln::PinnedPool> owned(static_cast<kiln::PinnedPool*>(pool));
}

/// A block of the pool, whose address goes to `data`; null on error.
void* kiln_bench_pool_empty(void* pool, std::int64_t size_bytes, void** data) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    auto block =
        std::make_unique<kiln::Tensor>(static_cast<kiln::PinnedPool*>(pool)->empty({size_bytes}, kiln::DType::u8));
    *data = block->data();
    return block.release();
  });
}

/// Lets a block go once the work on `stream` so far is done with it.
int kiln_bench_pool_release(void* pool, void* block, void* stream) {
  return guarded(1, [&] {
    const std::unique_ptr<kiln::Tensor> owned(static_cast<kiln::Tensor*>(block));
    static_cast<kiln::PinnedPool*>(pool)->record(*owned, {kiln::Device::cuda(), stream});
    return 0;
  });
}

int kiln_bench_copy(const KilnBenchTensor* destination, const KilnBenchTensor* source, void* stream) {
  return guarded(
      1, [&] { return kiln::copy(view_of(*destination), view_of(*source), {kiln::Device::cuda(), stream}), 0; });
}

/// Of depth `depth` on CUDA device 0, or on the CPU.
void* kiln_bench_pipeline_new(int on_cuda, int depth) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    const kiln::Device device = on_cuda != 0 ? kiln::Device::cuda() : kiln::Device::cpu();
    return std::make_unique<kiln::OffloadPipeline>(device, depth).release();
  });
}

void kiln_bench_pipeline_free(void* pipeline) {
  const std::unique_ptr<kiln::OffloadPipeline> owned(static_cast<kiln::OffloadPipeline*>(pipeline));
}

/// Enqueues work that makes `out` of `in`, both on the device; not 0 when it could not.
using KilnBenchCompute = int (*)(std::int64_t chunk, void* in, void* out, void* stream);

/// Runs chunks that load one tensor each and store one each.
int kiln_bench_pipeline_run(void* pipeline, const KilnBenchTensor* loads, const KilnBenchTensor* stores, int chunks,
                            KilnBenchCompute compute, int on_cuda, void* stream) {
  return guarded(1, [&] {
    std::vector<kiln::OffloadChunk> described;
    for (int i = 0; i < chunks; ++i)
      described.push_back({{view_of(loads[i]), kiln::OffloadTensor::Direction::load},
                           {view_of(stores[i]), kiln::OffloadTensor::Direction::store}});
    const kiln::Device device = on_cuda != 0 ? kiln::Device::cuda() : kiln::Device::cpu();
    static_cast<kiln::OffloadPipeline*>(pipeline)->run(
        described,
        [&](std::int64_t chunk, std::span<const kiln::Tensor> tensors, kiln::Stream on) {
          if (compute(chunk, tensors[0].data(), tensors[1].data(), on.handle) != 0)
            throw std::runtime_error("the chunk's work could not be enqueued");
        },
        {device, stream});
    return 0;
  });
}
}
