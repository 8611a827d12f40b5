#include <pybind11/pybind11.h>

#include "python/bindings/attributes.hpp"
#include "python/bindings/benchmark.hpp"
#include "python/bindings/block_swap.hpp"
#include "python/bindings/checking.hpp"
#include "python/bindings/command.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/copying.hpp"
#include "python/bindings/debugging.hpp"
#include "python/bindings/device.hpp"
#include "python/bindings/dispatch.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/graph_object.hpp"
#include "python/bindings/host_registration.hpp"
#include "python/bindings/inspection.hpp"
#include "python/bindings/interruption.hpp"
#include "python/bindings/measured_peak.hpp"
#include "python/bindings/memory_usage.hpp"
#include "python/bindings/offload_pipeline_object.hpp"
#include "python/bindings/op_spec_object.hpp"
#include "python/bindings/packed_gather_object.hpp"
#include "python/bindings/pinned_pool_object.hpp"
#include "python/bindings/profiler_object.hpp"
#include "python/bindings/stream_binding.hpp"
#include "python/bindings/tensor_layout.hpp"
#include "python/bindings/tensor_object.hpp"
#include "python/bindings/tuning.hpp"
#include "python/bindings/tuning_history.hpp"
#include "python/bindings/user_op.hpp"
#include "python/bindings/warm_up.hpp"

// The name is the symbol's alone: the module's own comes from the import.
PYBIND11_MODULE(_kiln_of_main_interpreter, module) {
  using namespace kiln::python;
  module.doc() = "The C++ side of the kiln package.";
  module.attr("__version__") = KILN_VERSION;
  install_interrupt_check();
  bind_errors(module);
  bind_dtype(module);
  bind_tensor(module);
  bind_dispatch(module);
  bind_op_spec(module);
  bind_device(module);
  bind_stream(module);
  bind_tensor_layout(module);
  bind_graph(module);
  bind_memory_usage(module);
  bind_pinned_pool(module);
  bind_host_registration(module);
  bind_copying(module);
  bind_block_swap(module);
  bind_packed_gather(module);
  bind_offload_pipeline(module);
  bind_warm_up(module);
  bind_tuning(module);
  bind_tuning_history(module);
  bind_benchmark(module);
  bind_inspection(module);
  bind_profiler(module);
  bind_debugging(module);
  bind_measured_peak(module);
  bind_command(module);
  bind_user_op(module);
  bind_checking(module);
  refuse_bare_objects(module);
}

/// What `import kiln._kiln` calls. Of a subinterpreter's thread state PyGILState, which lets C++ threads and callbacks
/// into Python, knows nothing: it would wait for the GIL that its own thread holds. pybind11 asks it before the module
/// runs, so the refusal stands in front of both.
extern "C" PYBIND11_EXPORT PyObject* PyInit__kiln() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit__kiln_of_main_interpreter();
  PyErr_SetString(
      PyExc_ImportError,
      "kiln cannot be imported in a subinterpreter: it serves the main interpreter only; import it there, or "
      "use threads or processes (multiprocessing with spawn)");
  return nullptr;
}
