#include "python/bindings/call_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/array_type.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/stream_object.hpp"
#include "python/bindings/stream_scope.hpp"
#include "python/bindings/tensor_object.hpp"
#include "python/bindings/torch_version.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "runtime/event.hpp"
#include "runtime/recording.hpp"

namespace kiln::python {
namespace {

struct Keywords {
  PyObject* out = PyUnicode_InternFromString("out");
  PyObject* stream = PyUnicode_InternFromString("stream");
  PyObject* config = PyUnicode_InternFromString("config");
  PyObject* tuning = PyUnicode_InternFromString("tuning");
  PyObject* overlap_previous = PyUnicode_InternFromString("overlap_previous");
  PyObject* device = PyUnicode_InternFromString("device");
};

const Keywords& keywords() {
  static const auto* interned = new Keywords;
  return *interned;
}

/// The place of `name` in a list of interned strings. Names in source code are interned too, so that addresses decide
/// nearly always.
std::optional<std::size_t> find_name(const std::vector<PyObject*>& names, PyObject* name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return i;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (PyUnicode_Compare(names[i], name) == 0) return i;
  return std::nullopt;
}

bool is_name(PyObject* name, PyObject* expected) {
  return name == expected || PyUnicode_Compare(name, expected) == 0;
}

bool is_array(PyObject* object) {
  const ArrayType::Access access = array_type(Py_TYPE(object)).access;
  return access != ArrayType::Access::none && access != ArrayType::Access::scalar;
}

std::string text_of(PyObject* object) {
  return py::repr(object).cast<std::string>();
}

/// "; attributes go by name: dim=..., dtype=...".
std::string attribute_advice(const OpSpec& spec) {
  std::vector<std::string> names;
  for (const AttributeSpec& attribute : spec.attributes) names.push_back(attribute.name + "=...");
  return names.empty() ? std::string() : fmt::format("; attributes go by name: {}", fmt::join(names, ", "));
}

/// "; a number goes by name: other=2.0" for an op with an attribute that stands for a left out input.
std::string number_advice(const OpSpec& spec, PyObject* object) {
  if (PyBool_Check(object) || (!PyLong_Check(object) && !PyFloat_Check(object))) return {};
  for (const AttributeSpec& attribute : spec.attributes)
    if (std::holds_alternative<std::monostate>(attribute.fallback) && !attribute.required)
      return fmt::format("; a number goes by name: {}={}", attribute.name, text_of(object));
  return attribute_advice(spec);
}

PyObject* interned(const std::string& text) {
  PyObject* string = PyUnicode_InternFromString(text.c_str());
  if (string == nullptr) throw py::error_already_set();
  return string;
}

}  // namespace

OpNames::OpNames(const OpSpec& op)
    : spec(&op), is_repeated(!op.inputs.empty() && op.inputs.back().repeated), changes_inputs(false) {
  for (const InputSpec& input : op.inputs) {
    inputs.push_back(interned(input.name));
    changes_inputs |= input.mutated;
  }
  for (const AttributeSpec& attribute : op.attributes) attributes.push_back(interned(attribute.name));
}

bool OpNames::is_optional(std::size_t input) const {
  return !spec->inputs.empty() && input_spec(*spec, input).optional;
}

CallArguments::CallArguments(const OpNames& names, PyObject* const* arguments, std::size_t num_positional,
                             PyObject* keyword_names, Accepts accepts, Device device)
    : names_(names), device_(device) {
  sort(arguments, num_positional, keyword_names, accepts);
  convert_outputs();
  convert_inputs();
  choose_device();
  choose_kind();
  choose_stream();
}

void CallArguments::sort(PyObject* const* arguments, std::size_t num_positional, PyObject* keyword_names,
                         Accepts accepts) {
  // A repeated input may also be given as one list of arrays, as torch.cat has it.
  const std::size_t last = names_.inputs.size() - 1;
  for (std::size_t i = 0; i < num_positional; ++i) {
    PyObject* object = arguments[i];
    const bool is_list = PyList_Check(object) || PyTuple_Check(object);
    if (names_.is_repeated && i == last && num_positional == names_.inputs.size() && is_list) {
      add_list(object, i);
    } else {
      add_positional(object, i);
    }
  }
  const Py_ssize_t num_keywords = keyword_names == nullptr ? 0 : PyTuple_GET_SIZE(keyword_names);
  for (Py_ssize_t i = 0; i < num_keywords; ++i)
    add_keyword(PyTuple_GET_ITEM(keyword_names, i), arguments[num_positional + static_cast<std::size_t>(i)], accepts);
  while (num_inputs_ > 0 && input_objects_[num_inputs_ - 1] == nullptr) --num_inputs_;
}

void CallArguments::add_list(PyObject* list, std::size_t position) {
  if (input_items_)
    throw_type_error(fmt::format("op '{}': input '{}' is given twice, by position and by name", names_.spec->name,
                                 names_.spec->inputs.back().name));
  input_items_ = py::reinterpret_steal<py::object>(PySequence_Tuple(list));
  if (!input_items_) throw py::error_already_set();
  for (Py_ssize_t item = 0; item < PyTuple_GET_SIZE(input_items_.ptr()); ++item)
    add_positional(PyTuple_GET_ITEM(input_items_.ptr(), item), position++);
}

void CallArguments::add_positional(PyObject* object, std::size_t position) {
  const OpSpec& spec = *names_.spec;
  if (position >= kMaxTensors)
    throw_value_error(fmt::format("op '{}': a call has at most {} tensors", spec.name, kMaxTensors));
  if (position >= names_.inputs.size() && !names_.is_repeated && !is_array(object)) {
    throw_type_error(fmt::format("op '{}' takes {} positional argument{}, its inputs, and got {} as another{}",
                                 spec.name, spec.inputs.size(), spec.inputs.size() == 1 ? "" : "s", text_of(object),
                                 attribute_advice(spec)));
  }
  input_objects_[position] = object == Py_None ? nullptr : object;
  num_inputs_ = position + 1;
}

void CallArguments::add_input(std::size_t input, PyObject* value) {
  const OpSpec& spec = *names_.spec;
  if (input < num_inputs_ && input_objects_[input] != nullptr)
    throw_type_error(
        fmt::format("op '{}': input '{}' is given twice, by position and by name", spec.name, spec.inputs[input].name));
  for (; num_inputs_ <= input; ++num_inputs_) input_objects_[num_inputs_] = nullptr;
  const bool is_list = PyList_Check(value) || PyTuple_Check(value);
  if (names_.is_repeated && input + 1 == names_.inputs.size() && is_list) {
    add_list(value, input);
  } else {
    input_objects_[input] = value == Py_None ? nullptr : value;
  }
}

void CallArguments::add_keyword(PyObject* name, PyObject* value, Accepts accepts) {
  const Keywords& known = keywords();
  const OpSpec& spec = *names_.spec;
  PyObject* given = value == Py_None ? nullptr : value;
  if (is_name(name, known.out)) {
    out_ = given;
    return;
  }
  if (is_name(name, known.stream)) {
    stream_object_ = given;
    return;
  }
  const std::optional<std::size_t> input = find_name(names_.inputs, name);
  const std::optional<std::size_t> attribute = find_name(names_.attributes, name);
  if (input && (!attribute || (given != nullptr && is_array(value)))) return add_input(*input, value);
  if (accepts == Accepts::everything) {
    if (attribute) {
      const AttributeSpec& found = spec.attributes[*attribute];
      attributes_.set(found.name, attribute_value(value, found, spec.name));
      return;
    }
    if (is_name(name, known.config)) {
      config_ = optional_config_argument(value);
      return;
    }
    if (is_name(name, known.tuning)) {
      if (given != nullptr) {
        if (!PyUnicode_Check(value)) throw_type_error("tuning: expected 'off', 'use', 'nearest' or 'first_use'");
        tuning_ = parse_tuning_policy(py::handle(value).cast<std::string>());
      }
      return;
    }
    if (is_name(name, known.overlap_previous)) {
      if (given != nullptr && !PyBool_Check(value)) throw_type_error("overlap_previous: expected True or False");
      overlap_previous_ = given == Py_True;
      return;
    }
    if (spec.inputs.empty() && is_name(name, known.device)) {
      device_object_ = given;
      return;
    }
  }
  refuse_keyword(name, accepts);
}

void CallArguments::refuse_keyword(PyObject* name, Accepts accepts) const {
  const OpSpec& spec = *names_.spec;
  const auto text = py::handle(name).cast<std::string>();
  std::vector<std::string> names;
  for (const InputSpec& input : spec.inputs) names.push_back(input.name);
  if (accepts == Accepts::tensors_and_stream) {
    names.insert(names.end(), {"out", "stream"});
    throw_value_error(
        fmt::format("op '{}' is resolved: its attributes and config are fixed, and '{}' is none of {}; resolve it "
                    "again for other ones",
                    spec.name, text, fmt::join(names, ", ")));
  }
  for (const AttributeSpec& attribute : spec.attributes)
    if (std::find(names.begin(), names.end(), attribute.name) == names.end()) names.push_back(attribute.name);
  names.insert(names.end(), {"out", "stream", "config", "tuning", "overlap_previous"});
  throw_value_error(fmt::format("op '{}' has no attribute or input '{}'{} (it takes: {})", spec.name, text,
                                did_you_mean(text, names), fmt::join(names, ", ")));
}

void CallArguments::add_output(PyObject* object) {
  const OpSpec& spec = *names_.spec;
  if (outputs_.size() == kMaxTensors)
    throw_value_error(fmt::format("op '{}': a call has at most {} tensors", spec.name, kMaxTensors));
  const std::size_t index = outputs_.size();
  const auto label = [&] {
    const std::string name = index < spec.outputs.size() ? spec.outputs[index].name : std::to_string(index);
    return fmt::format("op '{}': output '{}'", spec.name, name);
  };
  Tensor& tensor = outputs_.emplace_back();
  ArraySource source;
  try {
    source = read_array(object, tensor, stream_handle_);
  } catch (...) {
    name_array_error(label());
  }
  if (source.read_only)
    throw_value_error(label() + " is read-only, so the result cannot be written to it; pass a writeable array");
  output_objects_[index] = object;
  note_borrowed(object, source.kind, tensor);
  output_kinds_[index] = source.kind;
}

void CallArguments::convert_outputs() {
  if (stream_object_ != nullptr) stream_handle_ = stream_handle(stream_object_);
  if (out_ == nullptr) return;
  if (!PyTuple_Check(out_) && !PyList_Check(out_)) return add_output(out_);
  output_items_ = py::reinterpret_steal<py::object>(PySequence_Tuple(out_));
  if (!output_items_) throw py::error_already_set();
  const Py_ssize_t count = PyTuple_GET_SIZE(output_items_.ptr());
  if (count == 0)
    throw_value_error(
        fmt::format("op '{}': out is empty; give an array for each output, or leave it out", names_.spec->name));
  for (Py_ssize_t i = 0; i < count; ++i) add_output(PyTuple_GET_ITEM(output_items_.ptr(), i));
}

void CallArguments::convert_inputs() {
  const OpSpec& spec = *names_.spec;
  for (std::size_t i = 0; i < num_inputs_; ++i) {
    PyObject* object = input_objects_[i];
    Tensor& tensor = inputs_.emplace_back();
    if (object == nullptr) {
      if (!spec.inputs.empty() && !input_spec(spec, i).optional)
        throw_type_error(
            fmt::format("op '{}': {} is None or left out, and the op needs it", spec.name, tensor_label(spec, i, 0)));
      continue;
    }
    ArraySource source;
    try {
      source = read_array(object, tensor, stream_handle_);
    } catch (...) {
      if (const std::string advice = number_advice(spec, object); names_.is_optional(i) && !advice.empty())
        throw_type_error(
            fmt::format("op '{}': {} is {}, no array{}", spec.name, tensor_label(spec, i, 0), text_of(object), advice));
      name_array_error(fmt::format("op '{}': {}", spec.name, tensor_label(spec, i, 0)));
    }
    if (source.read_only && !spec.inputs.empty() && input_spec(spec, i).mutated)
      throw_value_error(fmt::format("op '{}' changes {}, which is read-only; pass a writeable array", spec.name,
                                    tensor_label(spec, i, 0)));
    input_kinds_[i] = source.kind;
    note_borrowed(object, source.kind, tensor);
  }
}

void CallArguments::choose_device() {
  for (const Tensor& tensor : inputs_.span())
    if (tensor.device().is_cuda()) return void(device_ = tensor.device());
  for (const Tensor& tensor : outputs_.span())
    if (tensor.device().is_cuda()) return void(device_ = tensor.device());
  if (inputs_.size() > 0 || outputs_.size() > 0) return void(device_ = Device::cpu());
  if (device_object_ != nullptr)
    device_ = parse_device(py::str(py::handle(device_object_)).cast<std::string>());
  else if (stream_object_ != nullptr && py::hasattr(stream_object_, "device"))
    device_ = parse_device(py::str(py::handle(stream_object_).attr("device")).cast<std::string>());
}

void CallArguments::choose_kind() {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_objects_[i] != nullptr && inputs_[i].device() == device_) {
      kind_ = input_kinds_[i];
      prototype_ = input_objects_[i];
      const ArrayType& type = array_type(Py_TYPE(input_objects_[i]));
      if (kind_ == ArrayKind::torch || kind_ == ArrayKind::other) exchange_ = type.exchange;
      return;
    }
  if (outputs_.size() > 0)
    kind_ = output_kinds_[0];
  else if (device_.is_cuda())
    kind_ = ArrayKind::kiln;
}

void CallArguments::choose_stream() {
  if (!device_.is_cuda() || stream_object_ != nullptr) {
    stream_ = stream_argument(stream_object_ == nullptr ? Py_None : stream_object_, device_, kind_);
  } else {
    ArrayKind kind = kind_;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (input_objects_[i] != nullptr && inputs_[i].device() == device_) kind = stream_kind(kind, input_kinds_[i]);
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i].device() == device_) kind = stream_kind(kind, output_kinds_[i]);
    if (const std::optional<Stream> scoped = StreamScope::current(device_, kind == ArrayKind::torch)) {
      stream_ = *scoped;
    } else if (exchange_ != nullptr && kind == kind_) {
      void* current = nullptr;
      if (exchange_->current_stream(dlpack::kCuda, device_.index, &current) != 0) throw py::error_already_set();
      stream_ = {device_, current};
    } else {
      stream_ = stream_argument(Py_None, device_, kind);
    }
  }
  if (!device_.is_cuda()) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_objects_[i] != nullptr && input_kinds_[i] == ArrayKind::kiln) order_behind(input_objects_[i]);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (output_kinds_[i] == ArrayKind::kiln) order_behind(output_objects_[i]);
}

/// A kiln.Tensor is written, and its memory given back, in the order of its own stream.
void CallArguments::order_behind(PyObject* object) {
  const Stream writer = py::cast<const TensorObject*>(py::handle(object))->stream;
  if (writer.device != stream_.device || writer.handle == stream_.handle || is_capturing(stream_)) return;
  Event written(writer.device);
  written.record(writer);
  written.wait(stream_);
  is_borrowed_ = true;
}

DispatchOptions CallArguments::options() const noexcept {
  DispatchOptions options;
  options.outputs = outputs_.span();
  options.stream = stream_;
  options.config = config_ ? &*config_ : nullptr;
  options.tuning = tuning_;
  options.overlap_previous = overlap_previous_;
  return options;
}

void CallArguments::note_borrowed(PyObject* object, ArrayKind kind, const Tensor& tensor) {
  if (!tensor.device().is_cuda()) return;
  // torch, CuPy and libraries with an exchange API reuse memory in the order of the stream that calls run on.
  // kiln.Tensor has a stream of its own: see order_behind.
  if (kind == ArrayKind::torch || kind == ArrayKind::cupy || kind == ArrayKind::kiln) return;
  is_borrowed_ |= array_type(Py_TYPE(object)).exchange == nullptr;
}

void CallArguments::wait_if_borrowed() const {
  if (is_borrowed_ && !is_capturing(stream_)) synchronize(stream_);
}

void CallArguments::note_launch() const {
  hold_if_recorded();
  note_changes();
}

void CallArguments::hold_if_recorded() const {
  const std::shared_ptr<Recording> recording = Recording::of(stream_);
  if (recording == nullptr) [[likely]]
    return;
  const auto hold = [&](const Tensor& tensor, PyObject* object) {
    if (object == nullptr) return;
    recording->keep(tensor.owner(), tensor.data());
    recording->keep(share(py::reinterpret_borrow<py::object>(object)), tensor.data());
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i) hold(inputs_[i], input_objects_[i]);
  for (std::size_t i = 0; i < outputs_.size(); ++i) hold(outputs_[i], output_objects_[i]);
}

void CallArguments::note_changes() const {
  std::array<PyObject*, kMaxTensors> changed;
  std::size_t count = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (output_kinds_[i] == ArrayKind::torch) changed[count++] = output_objects_[i];
  if (names_.changes_inputs)
    for (std::size_t i = 0; i < inputs_.size() && count < kMaxTensors; ++i)
      if (input_objects_[i] != nullptr && input_kinds_[i] == ArrayKind::torch && input_spec(*names_.spec, i).mutated)
        changed[count++] = input_objects_[i];
  if (count > 0) increment_versions({changed.data(), count});
}

py::object CallArguments::given_results() const {
  const OpSpec& spec = *names_.spec;
  std::array<PyObject*, kMaxTensors> results;
  std::size_t count = 0;
  if (outputs_.size() > 0)
    for (; count < outputs_.size(); ++count) results[count] = output_objects_[count];
  else
    for (std::size_t i = 0; i < num_inputs_; ++i)
      if (input_spec(spec, i).mutated) results[count++] = input_objects_[i] == nullptr ? Py_None : input_objects_[i];
  if (count == 1) return py::reinterpret_borrow<py::object>(results[0]);
  py::tuple tuple(count);
  for (std::size_t i = 0; i < count; ++i) tuple[i] = py::handle(results[i]);
  return tuple;
}

}  // namespace kiln::python
