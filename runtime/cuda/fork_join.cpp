#include <vector>

#include "runtime/backend.hpp"
#include "runtime/cuda/branch_stream.hpp"
#include "runtime/event.hpp"

namespace kiln {

/// No branch runs on `stream` itself, which would save a record and a wait: what one enqueues there would then come
/// between the branches.
void CudaBackend::fork_join(Stream stream, std::span<const std::function<void(Stream)>> branches) {
  const int priority = stream_priority(stream);
  Event entered(stream.device);
  entered.record(stream);
  std::vector<cuda::BranchStream> begun;
  begun.reserve(branches.size());
  try {
    for (const auto& branch : branches) {
      cuda::BranchStream& own = begun.emplace_back(stream, priority);
      entered.wait(own.get());
      branch(own.get());
    }
    for (cuda::BranchStream& own : begun) own.join();
  } catch (...) {
    for (cuda::BranchStream& own : begun) own.try_join();  // again where it was joined, which does no harm
    throw;
  }
}

}  // namespace kiln
