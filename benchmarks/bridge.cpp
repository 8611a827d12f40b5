#include "benchmarks/bridge.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/kv_series_op.hpp"
#include "benchmarks/read_op.hpp"
#include "registry/plan/build_plan.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"

namespace {

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

kiln::TensorView view_of(const KilnBenchTensor& given) {
  if (given.dtype == nullptr) return {};
  const auto rank = static_cast<std::size_t>(given.ndim);
  return {given.data, kiln::parse_dtype(given.dtype), given.on_cuda != 0 ? kiln::Device::cuda() : kiln::Device::cpu(),
          kiln::Dims(std::span(given.shape, rank)), kiln::Dims(std::span(given.strides, rank))};
}

std::string& bridge_error() {
  static thread_local std::string error;
  return error;
}

extern "C" {

const char* kiln_bench_error() {
  return bridge_error().c_str();
}

int kiln_bench_register_read(const char* kernel_path) {
  return guarded(1, [&] { return register_read_op(kernel_path), 0; });
}

int kiln_bench_register_kv_series(const char* kernel_path) {
  return guarded(1, [&] { return register_kv_series_op(kernel_path), 0; });
}

/// An op bound to these tensors, outputs first, on CUDA device 0 if one of them is there, else on the CPU; null on
/// error. `attributes` is a JSON object; `config` may be null.
void* kiln_bench_resolve(const char* name, const KilnBenchTensor* tensors, int num_outputs, int num_tensors,
                         const char* attributes, const char* config, int overlap_previous) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    std::vector<kiln::Tensor> inputs, outputs;
    for (int i = 0; i < num_tensors; ++i)
      (i < num_outputs ? outputs : inputs).emplace_back(view_of(tensors[i]), nullptr);
    kiln::Attributes parsed_attributes;
    const nlohmann::json object = nlohmann::json::parse(attributes);
    for (const auto& [key, value] : object.items()) parsed_attributes.set(key, attribute_value(key, value));
    kiln::DispatchOptions options;
    options.overlap_previous = overlap_previous != 0;
    kiln::Config parsed;
    if (config != nullptr) {
      parsed = kiln::parse_config(config);
      options.config = &parsed;
    }
    const std::vector<kiln::TensorView> input_views(inputs.begin(), inputs.end()),
        output_views(outputs.begin(), outputs.end());
    const kiln::Call call = kiln::validated_call(kiln::Registry::process().get(name), input_views, parsed_attributes,
                                                 {.outputs = output_views});
    return new BoundCall{inputs, outputs, parsed_attributes, call, kiln::resolve(call, options)};
  });
}

/// From now on the call runs copies of its kernels at other places in the device's memory. Two copies of one kernel
/// that finds the caches cold differ by parts of a microsecond.
int kiln_bench_load_anew(void* call) {
  return guarded(1, [&] {
    BoundCall& bound = *static_cast<BoundCall*>(call);
    bound.copies.push_back(kiln::build_plan(bound.call, kiln::target_of(bound.call.device), &bound.op.report().config,
                                            {}, kiln::Loading::anew));
    return 0;
  });
}

/// The variant and config in use, valid until the next call of this function.
const char* kiln_bench_config(void* call) {
  static thread_local std::string text;
  const kiln::PlanReport& report = static_cast<BoundCall*>(call)->op.report();
  text = report.variant + " " + kiln::to_string(report.config);
  return text.c_str();
}

/// What the call does by its spec's account: floating-point operations and bytes moved.
void kiln_bench_cost(void* call, double* flops, double* bytes) {
  const kiln::Cost& cost = static_cast<BoundCall*>(call)->op.report().cost;
  *flops = cost.flops;
  *bytes = cost.bytes;
}

/// On `stream`, for CUDA; the CPU is done when this returns.
int kiln_bench_launch(void* call, void* stream) {
  return guarded(1, [&] {
    const BoundCall& bound = *static_cast<BoundCall*>(call);
    const kiln::Device device = bound.call.device;
    bound({device, device.is_cuda() ? stream : nullptr});
    return 0;
  });
}

void kiln_bench_free(void* call) {
  delete static_cast<BoundCall*>(call);
}
}
