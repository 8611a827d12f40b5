#pragma once

#include <memory>

namespace kiln::cuda {

/// Keeps `holdings` as long as a graph of the caller's and all that is instantiated of it. DeviceError.
void hold_with_graph(void* graph, std::shared_ptr<void> holdings);

/// Whether this thread is in CudaBackend::drop_finished_holdings or the like: holdings may name streams that are gone.
bool is_dropping_holdings() noexcept;

}  // namespace kiln::cuda
