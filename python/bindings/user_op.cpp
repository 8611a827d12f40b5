#include "python/bindings/user_op.hpp"

#include <pybind11/stl.h>

#include <map>
#include <string>
#include <utility>

#include "compiler/kernel_signature.hpp"
#include "core/errors.hpp"
#include "python/bindings/array.hpp"
#include "python/bindings/array_making.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/callback.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/op_input.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_kernel.hpp"
#include "registry/user_ops/user_op.hpp"

// The dicts are made by kiln/kernel.py and kiln/user_op.py, which have checked what people gave: a key that is missing
// here is a fault of the package's own.
namespace kiln::python {
namespace {

KernelSource source_of(const py::tuple& source) {
  KernelSource made{source[0].cast<std::string>(), source[1].cast<std::string>(), {}};
  for (const py::handle header : source[2])
    made.headers.push_back(source_of(py::reinterpret_borrow<py::tuple>(header)));
  return made;
}

py::tuple to_python(const KernelSource& source) {
  py::list headers;
  for (const KernelSource& header : source.headers) headers.append(to_python(header));
  return py::make_tuple(source.path, source.text, py::tuple(headers));
}

py::dict signature_of(const py::tuple& source, const std::string& kernel) {
  const KernelSignature signature = kernel_signature(source_of(source), kernel);
  py::list template_parameters, parameters;
  for (const TemplateParameter& parameter : signature.template_parameters) {
    constexpr const char* kKinds[] = {"type", "integer", "boolean", "other"};
    template_parameters.append(
        py::make_tuple(parameter.name, kKinds[static_cast<int>(parameter.kind)], parameter.fallback));
  }
  for (const KernelParameter& parameter : signature.parameters)
    parameters.append(py::make_tuple(parameter.name, parameter.type, parameter.value_type, parameter.is_pointer,
                                     parameter.is_const, parameter.fallback));
  py::dict made;
  made["kernel"] = signature.kernel;
  made["line"] = signature.line;
  made["template_parameters"] = py::tuple(template_parameters);
  made["parameters"] = py::tuple(parameters);
  return made;
}

std::array<std::int64_t, 3> grid_from(const py::handle grid) {
  return grid.cast<std::array<std::int64_t, 3>>();
}

std::map<DType, Tolerance> tolerances_of(const py::dict& given) {
  std::map<DType, Tolerance> made;
  for (const auto& [dtype, bounds] : given) {
    const auto [relative, absolute] = bounds.cast<std::pair<double, double>>();
    made[dtype_argument(dtype)] = {relative, absolute};
  }
  return made;
}

/// Set where the dict has tolerances.
std::function<Tolerance(DType)> tolerance_function(const py::dict& definition) {
  const py::object given = definition["tolerance"];
  if (given.is_none()) return {};
  return [tolerances = tolerances_of(given)](DType dtype) {
    const auto found = tolerances.find(dtype);
    return found == tolerances.end() ? Tolerance{} : found->second;
  };
}

std::function<Cost(const OpCall&)> cost_function(const py::dict& definition) {
  const py::object given = definition["cost"];
  if (given.is_none()) return {};
  return [callback = Callback(given)](const OpCall& call) {
    const GilAcquired gil;
    const auto [flops, bytes] = callback(*describe(call)).cast<std::pair<double, double>>();
    return Cost{flops, bytes};
  };
}

UserKernel kernel_from(const py::dict& definition) {
  UserKernel kernel;
  kernel.name = definition["name"].cast<std::string>();
  kernel.doc = definition["doc"].cast<std::string>();
  kernel.source = source_of(definition["source"]);
  kernel.kernel = definition["kernel"].cast<std::string>();
  for (const auto& [name, values] : py::dict(definition["tunables"]))
    kernel.tunables.push_back({name.cast<std::string>(), values.cast<std::vector<std::int64_t>>()});
  for (const py::handle item : definition["constraints"]) {
    const auto [text, holds] = item.cast<std::pair<std::string, py::object>>();
    kernel.constraints.push_back({text, [callback = Callback(holds)](const Config& config) {
                                    const GilAcquired gil;
                                    return callback(kiln::python::to_python(config)).cast<bool>();
                                  }});
  }
  const Config on_cpu = config_argument(definition["cpu_defaults"]);
  const Config on_gpu = config_argument(definition["cuda_defaults"]);
  kernel.defaults = [on_cpu, on_gpu](const Target& target) { return target.type == DeviceType::cpu ? on_cpu : on_gpu; };
  if (const py::object of_call = definition["defaults_of_call"]; !of_call.is_none())
    kernel.defaults_of_call = [callback = Callback(of_call)](const OpCall& call, const Target& target) {
      const GilAcquired gil;
      return config_argument(callback(*describe(call), describe_target(call, target)));
    };
  if (const py::object grid = definition["grid"]; !grid.is_none())
    kernel.grid = [callback = Callback(grid)](const OpCall& call, const Config& config) {
      const GilAcquired gil;
      return grid_from(callback(*describe(call), kiln::python::to_python(config)));
    };
  kernel.strided = definition["strided"].cast<std::vector<std::string>>();
  kernel.not_tuned_for = definition["not_tuned_for"].cast<std::vector<std::string>>();
  kernel.cost = cost_function(definition);
  kernel.tolerance = tolerance_function(definition);
  return kernel;
}

Attributes attributes_from(const std::string& op, const py::dict& given) {
  Attributes attributes;
  for (const auto& [name, value] : given) {
    AttributeSpec spec;
    spec.name = name.cast<std::string>();
    if (PyUnicode_Check(value.ptr())) spec.fallback = std::string();  // else the name of a dtype would be one
    attributes.set(spec.name, attribute_value(value, spec, op));
  }
  return attributes;
}

LaunchFunction launch_function(const py::object& launch, const std::string& op) {
  if (launch.is_none()) return {};
  return [callback = Callback(launch), op](const OpCall& call, const Config& config, const Target& target) {
    const GilAcquired gil;
    const py::dict given = callback(*describe(call), kiln::python::to_python(config), describe_target(call, target));
    LaunchValues values;
    values.grid = grid_from(given["grid"]);
    values.values = attributes_from(op, given["values"]);
    for (const auto& [parameter, tensor] : py::dict(given["tensors"]))
      values.tensors.emplace_back(parameter.cast<std::string>(), tensor.cast<std::string>());
    values.num_warps = given["num_warps"].cast<std::int32_t>();
    values.shared_bytes = given["shared_bytes"].cast<std::int32_t>();
    return values;
  };
}

AttributeSpec attribute_from(const py::dict& given, const std::string& op) {
  AttributeSpec attribute;
  attribute.name = given["name"].cast<std::string>();
  attribute.doc = given["doc"].cast<std::string>();
  attribute.required = given["required"].cast<bool>();
  attribute.decides_speed = given["decides_speed"].cast<bool>();
  const Attributes value = attributes_from(op, py::dict(py::arg("value") = given["default"]));
  attribute.fallback = *value.find("value");
  attribute.is_unsigned = std::holds_alternative<std::int64_t>(attribute.fallback);  // its readers take any integer
  return attribute;
}

Example example_from(const py::dict& given, const std::string& op) {
  Example example;
  for (const py::handle input : given["inputs"]) {
    const auto [dtype, shape] = input.cast<std::pair<py::object, py::object>>();
    example.inputs.push_back({dtype_argument(dtype), dims_argument(shape)});
  }
  example.attributes = attributes_from(op, given["attributes"]);
  for (const py::handle range : given["ranges"]) {
    const auto [low, high] = range.cast<std::pair<double, double>>();
    example.ranges.push_back({low, high});
  }
  return example;
}

auto infer_function(const py::object& infer) {
  return [callback = Callback(infer)](const CallInputs& inputs, const Attributes& attributes) {
    const GilAcquired gil;
    std::vector<TensorMeta> metas;
    for (const py::handle item : callback(describe(inputs), kiln::python::to_python(attributes))) {
      const auto [dtype, shape] = item.cast<std::pair<py::object, py::object>>();
      metas.push_back({dtype_argument(dtype), dims_argument(shape)});
    }
    return metas;
  };
}

std::function<void(const OpCall&)> reference_function(const py::object& reference) {
  if (reference.is_none()) return {};
  return [callback = Callback(reference)](const OpCall& call) {
    const GilAcquired gil;
    const auto arrays = [](const CallInputs& views) {
      py::list list;
      for (std::size_t i = 0; i < views.size(); ++i)
        list.append(views.find(i) == nullptr ? py::object(py::none())
                                             : to_python(Tensor(views[i], nullptr), ArrayKind::numpy));
      return list;
    };
    callback(arrays(call.inputs), arrays({call.outputs, {}}), kiln::python::to_python(call.attributes));
  };
}

Aliasing aliasing_from(const std::string& name) {
  if (name == "elementwise") return Aliasing::elementwise;
  if (name == "first_input") return Aliasing::first_input;
  if (name == "any") return Aliasing::any;
  return Aliasing::none;
}

void add_variant(OpSpec& spec, const py::dict& given) {
  const UserKernel kernel = kernel_from(given["kernel"]);
  Variant variant = kernel_variant(spec, kernel, launch_function(given["launch"], spec.name));
  variant.name = given["name"].cast<std::string>();
  const auto target = given["target"].cast<std::string>();
  variant.serves = [target](const OpCall&, const Target& asked) {
    return target.empty() || (target == "cpu") == (asked.type == DeviceType::cpu);
  };
  spec.variants.push_back(std::move(variant));
}

OpSpec op_from(const py::dict& definition) {
  OpSpec spec;
  spec.name = definition["name"].cast<std::string>();
  spec.doc = definition["doc"].cast<std::string>();
  for (const py::handle input : definition["inputs"])
    spec.inputs.push_back(input_from(input.cast<py::dict>(), spec.inputs.size()));
  for (const py::handle output : definition["outputs"]) spec.outputs.push_back({output.cast<std::string>(), ""});
  for (const py::handle attribute : definition["attributes"])
    spec.attributes.push_back(attribute_from(attribute.cast<py::dict>(), spec.name));
  spec.dtypes = dtypes_from(definition["dtypes"]);
  spec.aliasing = aliasing_from(definition["aliasing"].cast<std::string>());
  spec.infer = infer_function(definition["infer"]);
  spec.cost = cost_function(definition);
  spec.reference = reference_function(definition["reference"]);
  for (const py::handle example : definition["examples"])
    spec.examples.push_back(example_from(example.cast<py::dict>(), spec.name));
  spec.tolerance = tolerance_function(definition);
  for (const py::handle range : definition["input_ranges"]) {
    const auto [low, high] = range.cast<std::pair<double, double>>();
    spec.input_ranges.push_back({low, high});
  }
  for (const py::handle variant : definition["variants"]) add_variant(spec, variant.cast<py::dict>());
  return spec;
}

}  // namespace

void bind_user_op(py::module_& module) {
  module.def(
      "read_kernel_source", [](const std::string& path) { return to_python(read_kernel_source(path)); },
      py::arg("path"), "(path, text, headers) of a kernel file and of the files beside it that it includes.");
  module.def("kernel_signature", &signature_of, py::arg("source"), py::arg("kernel"), "What a kernel declares.");
  module.def(
      "check_kernel", [](const py::dict& definition) { kernel_op(kernel_from(definition)); }, py::arg("definition"),
      "Refuses what register_kernel would.");
  module.def(
      "register_kernel",
      [](const py::dict& definition) { Registry::process().register_op(kernel_op(kernel_from(definition))); },
      py::arg("definition"), "Registers the op that launches a kernel with its own parameters.");
  module.def(
      "register_op", [](const py::dict& definition) { Registry::process().register_op(op_from(definition)); },
      py::arg("definition"), "Registers an op of the user's.");
}

}  // namespace kiln::python
