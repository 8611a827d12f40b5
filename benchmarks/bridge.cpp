// A C interface to resolved ops, for ctypes: benchmarks/gpu_elementwise.py times Kiln, torch and Triton in one process
// with one clock. Errors come back as text.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch.hpp"

namespace {

thread_local std::string last_error;

struct Call {
  std::vector<kiln::TensorView> inputs, outputs;
  kiln::ResolvedOp op;
};

}  // namespace

extern "C" {

/// A tensor as Python hands it over.
struct KilnBenchTensor {
  void* data;
  const char* dtype;
  int ndim;
  const std::int64_t* shape;
  const std::int64_t* strides;
};

const char* kiln_bench_error() {
  return last_error.c_str();
}

/// An op bound to these tensors on CUDA device 0, outputs first; null on error. `config` may be null.
void* kiln_bench_resolve(const char* name, const KilnBenchTensor* tensors, int num_outputs, int num_tensors,
                         const char* config) {
  try {
    std::vector<kiln::TensorView> inputs;
    std::vector<kiln::Tensor> outputs;
    std::vector<kiln::TensorView> output_views;
    for (int i = 0; i < num_tensors; ++i) {
      const KilnBenchTensor& given = tensors[i];
      const auto rank = static_cast<std::size_t>(given.ndim);
      const kiln::TensorView view{given.data, kiln::parse_dtype(given.dtype), kiln::Device::cuda(),
                                  kiln::Dims(std::span(given.shape, rank)), kiln::Dims(std::span(given.strides, rank))};
      if (i < num_outputs) {
        outputs.emplace_back(view, nullptr);
        output_views.push_back(view);
      } else {
        inputs.push_back(view);
      }
    }
    kiln::DispatchOptions options;
    options.outputs = outputs;
    kiln::Config parsed;
    if (config != nullptr) {
      parsed = kiln::parse_config(config);
      options.config = &parsed;
    }
    return new Call{inputs, output_views, kiln::resolve(name, inputs, {}, options)};
  } catch (const std::exception& error) {
    last_error = error.what();
    return nullptr;
  }
}

/// The variant and config in use, valid until the next call of this function.
const char* kiln_bench_config(void* call) {
  static thread_local std::string text;
  const kiln::PlanReport& report = static_cast<Call*>(call)->op.report();
  text = report.variant + " " + kiln::to_string(report.config);
  return text.c_str();
}

int kiln_bench_launch(void* call, void* stream) {
  try {
    const Call& bound = *static_cast<Call*>(call);
    bound.op(bound.inputs, bound.outputs, kiln::Stream{kiln::Device::cuda(), stream});
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

void kiln_bench_free(void* call) {
  delete static_cast<Call*>(call);
}
}
