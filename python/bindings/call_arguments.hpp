#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/attributes.hpp"
#include "core/config.hpp"
#include "ops/op_spec.hpp"
#include "python/bindings/array.hpp"
#include "python/bindings/dlpack_abi.hpp"
#include "python/bindings/tensor_list.hpp"
#include "registry/dispatch/dispatch.hpp"

namespace kiln::python {

/// An op's names as interned Python strings. Made once for each op and never freed.
struct OpNames {
  explicit OpNames(const OpSpec& spec);

  /// Whether the op can do without its input number `input`.
  bool is_optional(std::size_t input) const;

  const OpSpec* spec;
  std::vector<PyObject*> inputs;
  std::vector<PyObject*> attributes;
  bool is_repeated;     ///< the last input may be given any number of times
  bool changes_inputs;  ///< at least one of them
};

/// The arguments of a vectorcall, sorted and converted: inputs by position or name, out, stream, config, tuning,
/// overlap_previous, device (where the op has no inputs), and attributes by name. Borrows from the arguments, which
/// must outlive it; of a list it keeps what was in it, as another thread may change it during the call.
class CallArguments {
 public:
  enum class Accepts { everything, tensors_and_stream };
  /// `device`: of a call that has neither tensors nor says another. UsageError naming the op and the argument.
  CallArguments(const OpNames& names, PyObject* const* arguments, std::size_t num_positional, PyObject* keywords,
                Accepts accepts = Accepts::everything, Device device = {});

  std::span<const Tensor> inputs() const noexcept { return inputs_.span(); }
  std::span<const Tensor> outputs() const noexcept { return outputs_.span(); }
  const Attributes& attributes() const noexcept { return attributes_; }
  Device device() const noexcept { return device_; }
  Stream stream() const noexcept { return stream_; }
  /// The library of the results, and its exchange API where it has one that can make them.
  ArrayKind kind() const noexcept { return kind_; }
  const dlpack::ExchangeApi* exchange() const noexcept { return exchange_; }
  /// The input that decided on it; null where an output or nothing did.
  py::handle prototype() const noexcept { return prototype_; }
  /// `outputs`, `stream`, config, tuning policy and overlap_previous.
  DispatchOptions options() const noexcept;

  /// Blocks until the call is done where the library of an array on a GPU would not know that work on this stream still
  /// uses it: JAX, __cuda_array_interface__, a kiln.Tensor of another stream. Nothing to wait for while the stream is
  /// being captured. Without the GIL.
  void wait_if_borrowed() const;
  /// After the launch. A graph that records the call holds its arrays from here on. torch is told which of its tensors
  /// were changed, so that autograd notices where a backward pass would need the old contents.
  void note_launch() const;

  /// What a call returns that was given its outputs, or that changes its inputs: those very objects.
  py::object given_results() const;

 private:
  void sort(PyObject* const* arguments, std::size_t num_positional, PyObject* keywords, Accepts accepts);
  void add_positional(PyObject* object, std::size_t position);
  void add_keyword(PyObject* name, PyObject* value, Accepts accepts);
  void add_input(std::size_t input, PyObject* value);
  void add_output(PyObject* object);
  void convert_outputs();
  void convert_inputs();
  void add_list(PyObject* list, std::size_t position);
  void note_borrowed(PyObject* object, ArrayKind kind, const Tensor& tensor);
  void choose_device();
  void choose_kind();
  void choose_stream();
  void order_behind(PyObject* object);
  void hold_if_recorded() const;
  void note_changes() const;
  [[noreturn]] void refuse_keyword(PyObject* name, Accepts accepts) const;

  const OpNames& names_;
  std::array<PyObject*, kMaxTensors> input_objects_;  // the first num_inputs_ are set; null: left out
  std::size_t num_inputs_ = 0;
  std::array<PyObject*, kMaxTensors> output_objects_;
  std::array<ArrayKind, kMaxTensors> input_kinds_;
  std::array<ArrayKind, kMaxTensors> output_kinds_;
  py::object input_items_;  ///< tuples in the place of lists
  py::object output_items_;
  PyObject* out_ = nullptr;
  PyObject* stream_object_ = nullptr;
  PyObject* device_object_ = nullptr;
  std::optional<void*> stream_handle_;  ///< of stream_object_
  TensorList inputs_;
  TensorList outputs_;
  Attributes attributes_;
  std::optional<Config> config_;
  std::optional<TuningPolicy> tuning_;
  bool overlap_previous_ = false;
  Device device_;
  Stream stream_;
  ArrayKind kind_ = ArrayKind::numpy;
  bool is_borrowed_ = false;
  const dlpack::ExchangeApi* exchange_ = nullptr;
  py::handle prototype_;
};

}  // namespace kiln::python
