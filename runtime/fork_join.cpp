#include "runtime/fork_join.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "core/errors.hpp"
#include "runtime/device_access.hpp"

#if KILN_HAS_CUDA
#include <vector>

#include "runtime/cuda_branch_stream.hpp"
#include "runtime/event.hpp"
#endif

namespace kiln {
namespace {

#if KILN_HAS_CUDA
/// No branch runs on `stream` itself, which would save a record and a wait: what one enqueues there would then come
/// between the branches.
void fork_join_cuda(Stream stream, std::span<const std::function<void(Stream)>> branches) {
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
#endif

}  // namespace

void fork_join(Stream stream, std::span<const std::function<void(Stream)>> branches) {
  for (std::size_t i = 0; i < branches.size(); ++i)
    if (!branches[i]) throw_value_error(fmt::format("branch {} of a fork_join is an empty function", i));
  if (stream.device.is_cuda()) {
    require_cuda_device(stream.device);
#if KILN_HAS_CUDA
    fork_join_cuda(stream, branches);
    return;
#endif
  }
  for (const auto& branch : branches) branch(stream);
}

}  // namespace kiln
