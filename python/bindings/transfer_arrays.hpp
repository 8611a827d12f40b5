#pragma once

#include <deque>
#include <memory>
#include <string_view>

#include "python/bindings/array.hpp"
#include "runtime/stream.hpp"

namespace kiln::python {

/// The arrays of one transfer, whose work goes on after the call that enqueued it. They are held until it is done,
/// whatever Python lets go of meanwhile: memory that is given to others while a copy engine writes to it would be
/// theirs that it spoils.
class TransferArrays {
 public:
  enum class Access { read, written };

  /// `name` in messages. UsageError: type for what is no array, None among them, value for a read-only one that shall
  /// be written. The tensor stays where it is. Needs the GIL.
  const Tensor& add(py::handle array, std::string_view name, Access access);
  /// The stream that was given, else the current one of the arrays' libraries on `device`. Needs the GIL.
  Stream stream(py::handle given, Device device) const;

  /// Before the work: has `stream` wait for the streams of the kiln.Tensors among the arrays.
  void order(Stream stream) const;
  /// After the work: has those streams wait for `stream`, and holds the arrays until it has got here; in a graph of
  /// Kiln's as long as the graph. While others capture the stream nobody says how long that is, and nothing is held.
  void hold(Stream stream) const;
  /// Tells torch that arrays were written. Needs the GIL.
  void note_changes() const;

 private:
  struct Array {
    ArrayArgument argument;
    std::shared_ptr<void> object;
    Access access;
    Stream own;  ///< of a kiln.Tensor; the CPU's of anything else
  };
  std::deque<Array> arrays_;
};

}  // namespace kiln::python
