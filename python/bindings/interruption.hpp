#pragma once

namespace kiln::python {

/// Has every wait for a compile run Python's signal handlers, so that Ctrl-C ends it with KeyboardInterrupt: Python
/// itself only notes the signal until C++ comes back. Handlers run on the main thread alone; others wait on.
void install_interrupt_check();

}  // namespace kiln::python
