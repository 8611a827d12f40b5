// A C interface to resolved ops, for ctypes (benchmarks/kiln_library.py): one process then times Kiln beside torch,
// Triton and NumPy with one clock. Errors come back as text.

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/read_op.hpp"
#include "core/errors.hpp"
#include "registry/dispatch.hpp"

namespace {

thread_local std::string last_error;

struct Call {
  std::vector<kiln::TensorView> inputs, outputs;
  kiln::Stream stream;
  kiln::ResolvedOp op;
};

kiln::AttributeValue attribute_value(const std::string& name, const nlohmann::json& value) {
  if (value.is_null()) return std::monostate{};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_array()) return value.get<std::vector<std::int64_t>>();
  if (name == "dtype") return kiln::parse_dtype(value.get<std::string>());
  return value.get<std::string>();
}

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

int kiln_bench_register_read(const char* kernel_path) {
  try {
    register_read_op(kernel_path);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

/// An op bound to these tensors, outputs first, on CUDA device 0 or the CPU; null on error. `attributes` is a JSON
/// object; `config` may be null.
void* kiln_bench_resolve(const char* name, int on_cuda, const KilnBenchTensor* tensors, int num_outputs,
                         int num_tensors, const char* attributes, const char* config) {
  try {
    const kiln::Device device = on_cuda != 0 ? kiln::Device::cuda() : kiln::Device::cpu();
    std::vector<kiln::TensorView> inputs;
    std::vector<kiln::Tensor> outputs;
    std::vector<kiln::TensorView> output_views;
    for (int i = 0; i < num_tensors; ++i) {
      const KilnBenchTensor& given = tensors[i];
      const auto rank = static_cast<std::size_t>(given.ndim);
      const kiln::TensorView view{given.data, kiln::parse_dtype(given.dtype), device,
                                  kiln::Dims(std::span(given.shape, rank)), kiln::Dims(std::span(given.strides, rank))};
      if (i < num_outputs) {
        outputs.emplace_back(view, nullptr);
        output_views.push_back(view);
      } else {
        inputs.push_back(view);
      }
    }
    kiln::Attributes parsed_attributes;
    const nlohmann::json object = nlohmann::json::parse(attributes);
    for (const auto& [key, value] : object.items()) parsed_attributes.set(key, attribute_value(key, value));
    kiln::DispatchOptions options;
    options.outputs = outputs;
    kiln::Config parsed;
    if (config != nullptr) {
      parsed = kiln::parse_config(config);
      options.config = &parsed;
    }
    return new Call{inputs, output_views, kiln::Stream::default_of(device),
                    kiln::resolve(name, inputs, parsed_attributes, options)};
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

/// What the call does by its spec's account: floating-point operations and bytes moved.
void kiln_bench_cost(void* call, double* flops, double* bytes) {
  const kiln::Cost& cost = static_cast<Call*>(call)->op.report().cost;
  *flops = cost.flops;
  *bytes = cost.bytes;
}

/// On `stream`, for CUDA; the CPU is done when this returns.
int kiln_bench_launch(void* call, void* stream) {
  try {
    const Call& bound = *static_cast<Call*>(call);
    kiln::Stream on = bound.stream;
    if (on.device.is_cuda()) on = {on.device, stream};
    bound.op(bound.inputs, bound.outputs, on);
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
