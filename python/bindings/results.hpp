#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <functional>

#include "python/bindings/array.hpp"
#include "python/bindings/call_arguments.hpp"
#include "python/bindings/dlpack_abi.hpp"
#include "python/bindings/tensor_list.hpp"

namespace kiln::python {

/// Makes a call's outputs with the caller's library, and hands them to Python.
class Results {
 public:
  explicit Results(const CallArguments& arguments);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  /// Dense memory for one output, at most kMaxTensors times. Takes the GIL where the library needs it.
  const Tensor& allocate(const TensorMeta& meta, Stream stream);
  /// What `allocate` made, in order, as the library's array; the one array, or a tuple where there are several.
  py::object to_python();

 private:
  void allocate_exchanged(const TensorMeta& meta, Stream stream, Tensor& made);
  void allocate_by_numpy(const TensorMeta& meta, Tensor& made);
  void allocate_in_python(const TensorMeta& meta, Stream stream, Tensor& made);
  py::object one_to_python(std::size_t index);

  ArrayKind kind_;
  /// A graph of Kiln's records the call: the memory is the graph's, for replays write it. The library's allocator would
  /// give it to others as soon as Python drops the array.
  bool is_recorded_ = false;
  /// torch's is not used: its allocator makes tensors of foreign memory, whose record_stream does nothing.
  const dlpack::ExchangeApi* exchange_;
  py::handle prototype_;
  Stream stream_;
  TensorList made_;
  std::size_t size_ = 0;                                          ///< those of which something is to be let go of
  std::array<dlpack::ManagedVersioned*, kMaxTensors> exchanged_;  // the first size_ are set, where exchange_ is
  std::array<PyObject*, kMaxTensors> objects_;                    // likewise where Python made them
};

}  // namespace kiln::python
