#include "python/bindings/block_swap.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/errors.hpp"
#include "offload/swap_blocks.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/numpy_array.hpp"
#include "python/bindings/transfer_arrays.hpp"

namespace kiln::python {
namespace {

SwapMethod method_of(std::string_view name) {
  if (name == "automatic") return SwapMethod::automatic;
  if (name == "kernel") return SwapMethod::kernel;
  if (name == "copy_engine") return SwapMethod::copy_engine;
  throw_value_error(fmt::format("method='{}'; expected 'automatic', 'kernel' or 'copy_engine'", name));
}

/// A list of pairs, or an integer array [n, 2] on the CPU.
std::vector<BlockPair> pairs_of(py::handle given) {
  constexpr const char* kExpected =
      "pairs: expected (source, destination) block numbers, as a list of pairs or an integer array [n, 2] on the CPU";
  const py::module_ numpy = py::module_::import("numpy");
  py::array array;
  try {
    array = py::array(numpy.attr("asarray")(given));
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt) || error.matches(PyExc_MemoryError)) throw;
    throw_type_error(fmt::format("{}; {}", kExpected, py::str(error.value()).cast<std::string>()));
  }
  if (array.size() == 0) return {};
  const char kind = array.dtype().kind();
  if (kind != 'i' && kind != 'u')
    throw_type_error(fmt::format("{}, got elements of {}", kExpected, py::str(array.dtype()).cast<std::string>()));
  if (array.ndim() != 2 || array.shape(1) != 2)
    throw_value_error(fmt::format("{}, got shape {}", kExpected, py::str(array.attr("shape")).cast<std::string>()));
  if (kind == 'u' && array.itemsize() == 8)
    throw_type_error(fmt::format("{}, got elements of uint64, which need not fit", kExpected));
  const auto numbers = py::array_t < std::int64_t, py::array::c_style | py::array::forcecast > (array);
  const auto values = numbers.unchecked<2>();
  std::vector<BlockPair> pairs(static_cast<std::size_t>(values.shape(0)));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto row = static_cast<py::ssize_t>(i);
    pairs[i] = {values(row, 0), values(row, 1)};
  }
  return pairs;
}

void swap_arrays(py::handle dst, py::handle src, py::handle pairs, py::handle stream, const std::string& method) {
  using Access = TransferArrays::Access;
  const SwapMethod chosen = method_of(method);
  TransferArrays arrays;
  const Tensor& to = arrays.add(dst, "dst", Access::written);
  const Tensor& from = arrays.add(src, "src", Access::read);
  const std::vector<BlockPair> blocks = pairs_of(pairs);
  const Stream where = arrays.stream(stream, to.device().is_cuda() ? to.device() : from.device());
  {
    const GilReleased released;
    arrays.order(where);
    swap_blocks(to, from, blocks, where, chosen);
    arrays.hold(where);
  }
  arrays.note_changes();
}

}  // namespace

void bind_block_swap(py::module_& module) {
  module.def(
      "swap_blocks", &swap_arrays, py::arg("dst"), py::arg("src"), py::arg("pairs"), py::arg("stream") = py::none(),
      py::kw_only(), py::arg("method") = "automatic",
      "dst[d] = src[s] for each pair (s, d) of `pairs`, which lie on the CPU: a list of pairs or an integer array "
      "[n, 2]; one with a negative side is skipped. A block is everything behind dimension 0, dense, of one shape "
      "and dtype in both. Either may lie in page-locked memory while the other is on a GPU; both are held until "
      "the work is done, and two of the CPU are copied at once.\n\n`method`: \"kernel\" (a few multiprocessors), "
      "\"copy_engine\" (a copy for each run of neighbours), or the faster of both. ValueError, before anything "
      "runs, for arrays that do not match or overlap, a pair outside of them, and memory that is not page-locked. "
      "kiln.ops.swap_blocks takes pairs that lie on the GPU.");
}

}  // namespace kiln::python
