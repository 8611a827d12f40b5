// Chains of small calls, enqueued by dispatch, by resolved op, and as graphs. Each function that enqueues returns the
// host's microseconds, or -1 on error.

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "benchmarks/bridge.hpp"
#include "benchmarks/hand_graph.hpp"
#include "registry/profiling/profiler.hpp"
#include "runtime/graph.hpp"

namespace {

using Calls = std::span<const BoundCall* const>;

Calls calls_of(void* const* calls, int count) {
  return {reinterpret_cast<const BoundCall* const*>(calls), static_cast<std::size_t>(count)};
}

kiln::Stream stream_of(Calls calls, void* stream) {
  return {calls.front()->call.device, stream};
}

template <typename Enqueue>
double host_us(const Enqueue& enqueue) {
  return guarded(-1.0, [&] {
    const auto start = std::chrono::steady_clock::now();
    enqueue();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  });
}

void run_resolved(Calls calls, kiln::Stream stream) {
  for (const BoundCall* call : calls) (*call)(stream);
}

struct CapturedChain {
  kiln::Stream stream;
  kiln::Graph graph;
};

}  // namespace

extern "C" {

double kiln_bench_chain_dispatch(void* const* handles, int count, void* stream) {
  return host_us([&] {
    const Calls calls = calls_of(handles, count);
    for (const BoundCall* call : calls)
      kiln::dispatch_gpu_op(call->call.spec->name, call->inputs, call->attributes,
                            {.outputs = call->outputs, .stream = stream_of(calls, stream)});
  });
}

double kiln_bench_chain_resolved(void* const* handles, int count, void* stream) {
  return host_us([&] { run_resolved(calls_of(handles, count), stream_of(calls_of(handles, count), stream)); });
}

/// The chain, recorded on a stream that is not the default one.
void* kiln_bench_chain_capture(void* const* handles, int count, void* stream) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    const Calls calls = calls_of(handles, count);
    const kiln::Stream on = stream_of(calls, stream);
    return new CapturedChain{on, kiln::capture(on, [&] { run_resolved(calls, on); })};
  });
}

double kiln_bench_graph_launch(void* graph) {
  const auto& chain = *static_cast<CapturedChain*>(graph);
  return host_us([&] { chain.graph.launch(chain.stream); });
}

void kiln_bench_graph_free(void* graph) {
  delete static_cast<CapturedChain*>(graph);
}

/// The same kernels in a graph that was put together node by node.
void* kiln_bench_hand_graph_new(void* const* handles, int count, void* stream) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    const Calls calls = calls_of(handles, count);
    const kiln::Stream on = stream_of(calls, stream);
    return new HandGraph(on, [&] { run_resolved(calls, on); });
  });
}

double kiln_bench_hand_graph_launch(void* graph) {
  return host_us([&] { static_cast<HandGraph*>(graph)->launch(); });
}

void kiln_bench_hand_graph_free(void* graph) {
  delete static_cast<HandGraph*>(graph);
}

/// Resolved calls, with a profiler or without one, right after the same calls and a wait: the first of a profiler make
/// its events. The profiler's report as a table, which is valid until the next call, goes to `report` where that is
/// given.
double kiln_bench_chain_profiled(void* const* handles, int count, void* stream, int is_profiled, const char** report) {
  static thread_local std::string text;
  return guarded(-1.0, [&] {
    const Calls calls = calls_of(handles, count);
    const kiln::Stream on = stream_of(calls, stream);
    std::optional<kiln::Profiler> profiler;
    if (is_profiled != 0) profiler.emplace();
    run_resolved(calls, on);
    kiln::synchronize(on);
    const double us = host_us([&] { run_resolved(calls, on); });
    kiln::synchronize(on);
    if (profiler && report != nullptr) {
      text = to_string(profiler->report());
      *report = text.c_str();
    }
    return us;
  });
}
}
