#pragma once

// What the C interface of libkiln_bench.so is made of. Its functions are for ctypes (benchmarks/kiln_library.py): one
// process then times Kiln beside torch, Triton and NumPy with one clock. Errors come back as text.

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/dispatch/enqueue.hpp"
#include "registry/dispatch/matching_tensors.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/plan.hpp"

/// A tensor as Python hands it over; on the CPU or on CUDA device 0. A null `dtype` is a tensor that is left out.
struct KilnBenchTensor {
  void* data;
  const char* dtype;
  int on_cuda;
  int ndim;
  const std::int64_t* shape;
  const std::int64_t* strides;
};

kiln::TensorView view_of(const KilnBenchTensor& given);

/// What kiln_bench_resolve makes: a call over memory that Python keeps.
struct BoundCall {
  std::vector<kiln::Tensor> inputs, outputs;
  kiln::Attributes attributes;  ///< as Python gave them, for dispatches
  kiln::Call call;
  kiln::ResolvedOp op;
  /// Of op's call, with kernels loaded for it alone, the one in use last; empty unless kiln_bench_load_anew made some.
  /// The others are kept: what is unloaded makes room for the next at the same place.
  std::vector<std::shared_ptr<const kiln::Plan>> copies = {};

  void operator()(kiln::Stream stream) const {
    if (copies.empty()) return op(call.inputs, call.outputs, stream);
    const kiln::Plan& copy = *copies.back();
    kiln::PlanTensors storage;
    enqueue(copy, matching_tensors(copy, call.inputs, call.outputs, "loaded anew", storage), stream);
  }
};

/// Of this thread's last call that failed.
std::string& bridge_error();

/// Calls `function`; the text of what it throws becomes bridge_error() and `failed` the result.
template <typename Function>
auto guarded(decltype(std::declval<Function>()()) failed, Function&& function) {
  try {
    return function();
  } catch (const std::exception& error) {
    bridge_error() = error.what();
    return failed;
  }
}
