#include "python/bindings/op_spec_object.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compiler/host_cpu.hpp"
#include "core/errors.hpp"
#include "ops/op_spec.hpp"
#include "python/bindings/array.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "python/bindings/tensor_object.hpp"
#include "registry/inspection/random_call_inputs.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "runtime/device_info.hpp"

namespace kiln::python {
namespace {

std::vector<DType> dtypes_of(const OpSpec& spec, const InputSpec& input) {
  return input.dtypes.empty() ? spec.dtypes : input.dtypes;
}

const char* type_name(const AttributeSpec& attribute) {
  static constexpr const char* kNames[] = {
      "number, dtype, list of int or None", "bool", "int", "float", "str", "DType", "list of int", "int"};
  static_assert(std::size(kNames) == std::variant_size_v<AttributeValue>);
  return kNames[attribute.fallback.index()];
}

const char* aliasing_name(Aliasing aliasing) {
  switch (aliasing) {
    case Aliasing::none:
      break;
    case Aliasing::elementwise:
      return "elementwise";
    case Aliasing::first_input:
      return "first_input";
    case Aliasing::any:
      return "any";
  }
  return "none";
}

Attributes attributes_argument(const OpSpec& spec, const py::object& attributes) {
  return attributes.is_none() ? Attributes() : attributes_from(spec, py::kwargs(py::dict(attributes)));
}

/// Arrays or kiln.TensorMeta as views, with what keeps them alive.
struct Views {
  py::tuple objects;
  std::vector<Tensor> held;
  std::vector<TensorView> views;
  LeftOut left_out;

  /// UsageError(type) where one is None that the op needs.
  CallInputs inputs(const OpSpec& spec) const {
    check_left_out(spec, left_out);
    return {views, left_out};
  }
};

Views views_of(const OpSpec& spec, const py::sequence& arrays, const char* role, bool is_written, bool on_cpu) {
  Views result{py::tuple(arrays), {}, {}, {}};
  check_num_tensors(spec.name, result.objects.size(), 0);
  for (const py::handle array : result.objects) {
    const std::size_t place = result.views.size();
    const std::string label = fmt::format("op '{}': {} {}", spec.name, role, place);
    result.left_out[place] = array.is_none();
    if (py::isinstance<TensorMeta>(array)) {
      if (on_cpu) throw_type_error(label + " is a TensorMeta, and its data is needed");
      const auto& meta = array.cast<const TensorMeta&>();
      result.left_out[place] = meta.absent;
      result.views.push_back(placeholder(meta));
      continue;
    }
    ArrayArgument argument = array_argument(array, label);
    if (is_written && argument.read_only && !array.is_none()) throw_value_error(label + " is read-only");
    if (on_cpu && argument.tensor.device().is_cuda())
      throw_type_error(label + " is on a GPU, and this runs over CPU arrays");
    result.views.push_back(argument.tensor.view());
    result.held.push_back(std::move(argument.tensor));
  }
  while (!result.views.empty() && result.left_out[result.views.size() - 1]) result.views.pop_back();
  return result;
}

void run_reference(const OpSpec& spec, const py::sequence& inputs, const py::sequence& outputs,
                   const py::object& attributes) {
  if (!spec.reference) throw_not_implemented(fmt::format("op '{}' has no reference", spec.name));
  const Views in = views_of(spec, inputs, "input", false, true);
  const Views out = views_of(spec, outputs, "output", true, true);
  const Call call = validated_call(spec, in.inputs(spec), attributes_argument(spec, attributes),
                                   {.outputs = out.views, .seen_on = Device::cpu()});
  if (call.makes_outputs && !call.metas.empty()) check_outputs(spec, {}, call.metas);  // it writes what is given
  const GilReleased released;
  spec.reference(call.seen_by_spec());
}

std::vector<py::object> fill(const OpSpec& spec, const py::sequence& arrays, const py::object& attributes,
                             std::uint64_t seed, const std::vector<std::pair<double, double>>& ranges, bool spoiled,
                             const std::string& device) {
  const Views views = views_of(spec, arrays, "input", true, true);
  std::vector<InputRange> input_ranges;
  for (const auto& [low, high] : ranges) input_ranges.push_back({low, high});
  const Attributes given = attributes_argument(spec, attributes);
  const Device place = parse_device(device);
  std::vector<Tensor> memory;
  {
    const GilReleased released;
    memory = fill_random_inputs(spec, views.inputs(spec), given, seed,
                                {.ranges = input_ranges, .spoiled = spoiled, .addressed = place});
  }
  std::vector<py::object> objects;
  for (const Tensor& tensor : memory) objects.push_back(make_tensor_object(tensor, Stream::default_of(place)));
  return objects;
}

Cost cost_of(const OpSpec& spec, const py::sequence& inputs, const py::object& attributes) {
  const Views in = views_of(spec, inputs, "input", false, false);
  const Call call =
      validated_call(spec, in.inputs(spec), attributes_argument(spec, attributes), {.seen_on = Device::cpu()});
  return spec.cost ? spec.cost(call.seen_by_spec()) : Cost{};
}

Example random_example(const OpSpec& spec, std::uint64_t seed) {
  if (!spec.random_example)
    throw_not_implemented(
        fmt::format("op '{}' has no random examples; give all inputs of one of its examples shapes "
                    "that broadcast",
                    spec.name));
  std::mt19937_64 random(seed);
  return spec.random_example(random);
}

std::vector<std::pair<double, double>> pairs_of(const std::vector<InputRange>& ranges) {
  std::vector<std::pair<double, double>> pairs;
  for (const InputRange& range : ranges) pairs.emplace_back(range.low, range.high);
  return pairs;
}

/// The space on this machine's CPU, or its first GPU; Hopper stands for a GPU that is not there.
ConfigSpace space_on(const Variant& variant, const std::string& device) {
  if (!parse_device(device).is_cuda()) return variant.space(host_cpu_target());
  const bool there = device_count(DeviceType::cuda) > 0;
  return variant.space(there ? device_info(parse_device(device)).target : cuda_target(9, 0));
}

template <typename T>
py::class_<T> define(py::module_& module, const char* name, const char* doc) {
  py::class_<T> type(module, name, doc);
  type.attr("__module__") = "kiln";
  return type;
}

void bind_parts(py::module_& module) {
  define<InputSpec>(module, "InputSpec", "An input of an op.")
      .def_readonly("name", &InputSpec::name)
      .def_readonly("doc", &InputSpec::doc)
      .def_readonly("optional", &InputSpec::optional, "May be left out.")
      .def_readonly("repeated", &InputSpec::repeated, "May be given any number of times.")
      .def_readonly("mutated", &InputSpec::mutated, "The op changes it.")
      .def_readonly("pinned", &InputSpec::pinned, "May lie in pinned host memory while the call is on a GPU.")
      .def_readonly("dtypes", &InputSpec::dtypes, "Where they differ from the op's.")
      .def_property_readonly(
          "selects", [](const InputSpec& self) { return static_cast<bool>(self.selects); },
          "Its values choose memory or amounts of work.")
      .def_property_readonly(
          "points_to", [](const InputSpec& self) { return static_cast<bool>(self.points_to); },
          "Its values are addresses.");
  define<OutputSpec>(module, "OutputSpec", "An output of an op.")
      .def_readonly("name", &OutputSpec::name)
      .def_readonly("doc", &OutputSpec::doc);
  define<AttributeSpec>(module, "AttributeSpec", "An attribute of an op.")
      .def_readonly("name", &AttributeSpec::name)
      .def_property_readonly("default", [](const AttributeSpec& self) { return to_python(self.fallback); })
      .def_readonly("required", &AttributeSpec::required)
      .def_readonly("doc", &AttributeSpec::doc)
      .def_property_readonly("type", &type_name, "For people: \"float\".");
  define<Cost>(module, "Cost", "What a call costs at least.")
      .def_readonly("flops", &Cost::flops)
      .def_readonly("bytes", &Cost::bytes, "Each input element read once, each output written once.");
  define<Tolerance>(module, "Tolerance", "How far results may be from the reference's.")
      .def_readonly("relative", &Tolerance::relative)
      .def_readonly("absolute", &Tolerance::absolute);
  define<Example>(module, "Example", "A call that tests and benchmarks can make.")
      .def_readonly("inputs", &Example::inputs, "kiln.TensorMeta of each input.")
      .def_property_readonly("attributes", [](const Example& self) { return to_python(self.attributes); })
      .def_property_readonly(
          "ranges", [](const Example& self) { return pairs_of(self.ranges); },
          "(low, high) of random contents, by input, where they depend on the shapes.");
  define<Variant>(module, "Variant", "A kernel that can serve an op.")
      .def_readonly("name", &Variant::name)
      .def_readonly("doc", &Variant::doc)
      .def_readonly("kernel", &Variant::kernel, "The name of its template.")
      .def_property_readonly("source", [](const Variant& self) { return self.source.path; })
      .def(
          "tunables",
          [](const Variant& self, const std::string& device) {
            py::dict tunables;
            const ConfigSpace space = space_on(self, device);
            for (const Tunable& tunable : space.tunables()) tunables[py::str(tunable.name)] = tunable.values;
            return tunables;
          },
          py::arg("device") = "cpu", "Name -> values.")
      .def(
          "constraints",
          [](const Variant& self, const std::string& device) {
            std::vector<std::string> texts;
            const ConfigSpace space = space_on(self, device);
            for (const Constraint& constraint : space.constraints()) texts.push_back(constraint.text);
            return texts;
          },
          py::arg("device") = "cpu", "What must hold among the tunables.");
}

}  // namespace

void bind_op_spec(py::module_& module) {
  bind_parts(module);
  py::class_<OpSpec, std::unique_ptr<OpSpec, py::nodelete>> type(
      module, "OpSpec", "What an op takes, makes and promises; the registry's, for as long as the process lives.");
  type.attr("__module__") = "kiln";
  type.def_readonly("name", &OpSpec::name)
      .def_readonly("doc", &OpSpec::doc)
      .def_readonly("inputs", &OpSpec::inputs)
      .def_readonly("outputs", &OpSpec::outputs)
      .def_readonly("attributes", &OpSpec::attributes)
      .def_readonly("dtypes", &OpSpec::dtypes, "Of inputs that have none of their own.")
      .def_readonly("variants", &OpSpec::variants, "In order of preference.")
      .def_property_readonly("aliasing", [](const OpSpec& self) { return aliasing_name(self.aliasing); })
      .def_property_readonly("input_ranges", [](const OpSpec& self) { return pairs_of(self.input_ranges); })
      .def_property_readonly("has_reference", [](const OpSpec& self) { return static_cast<bool>(self.reference); })
      .def_property_readonly("follows_addresses", &holds_addresses, "Inputs hold addresses of what the op works on.")
      .def_property_readonly("has_random_example",
                             [](const OpSpec& self) { return static_cast<bool>(self.random_example); })
      .def("dtypes_of", &dtypes_of, py::arg("input"), "The dtypes one of the inputs may have.")
      .def("examples", [](const OpSpec& self) { return self.examples; })
      .def("random_example", &random_example, py::arg("seed"),
           "A random legal call. NotImplementedError where the op has none.")
      .def(
          "tolerance",
          [](const OpSpec& self, py::handle dtype) {
            return self.tolerance ? self.tolerance(dtype_argument(dtype)) : Tolerance{};
          },
          py::arg("dtype"), "Against the reference, by the output's dtype.")
      .def("cost", &cost_of, py::arg("inputs"), py::arg("attributes") = py::none(),
           "Of a call with these arrays or kiln.TensorMeta.")
      .def(
          "fill_inputs", &fill, py::arg("arrays"), py::arg("attributes") = py::none(), py::arg("seed") = 0,
          py::arg("ranges") = std::vector<std::pair<double, double>>(), py::arg("spoiled") = false,
          py::arg("device") = "cpu",
          "Fills CPU arrays (None: left out) with random contents that the op can take; indices, counts and the like "
          "come from the whole of what the call has, with `spoiled` mixed with what the op skips. Addresses are of new "
          "memory on `device`, which is returned: keep it as long as the arrays are used.")
      .def("reference", &run_reference, py::arg("inputs"), py::arg("outputs"), py::arg("attributes") = py::none(),
           "Runs the op's naive reference over CPU arrays, into `outputs` or the inputs that the op changes.")
      .def("__repr__", [](const OpSpec& self) { return fmt::format("<kiln.OpSpec {}>", self.name); });
}

}  // namespace kiln::python
