#pragma once

/// What a fork takes from the process that it makes. Only the thread that called fork() goes on in the child: Kiln's
/// workers are not there, though their pool counts on them, and the NVIDIA driver serves the parent alone. Where
/// neither was used before the fork the child misses nothing and may use both.
///
/// A lock that another thread held at the time of the fork stays held in the child for ever. Nothing can be done about
/// that from here, so fork while no other thread is inside Kiln, or start processes anew (Python's spawn).
namespace kiln {

enum class ForkLoss {
  workers,      ///< threads of the pool: kernels run on the calling thread alone
  cuda_driver,  ///< contexts, streams and device memory: nothing of CUDA works
};

/// Remembers that this process is about to use what a fork takes. Cheap and idempotent; any thread.
void note_lost_in_fork(ForkLoss loss) noexcept;

namespace detail {
// Plain: written in a child before it has a second thread, and never again.
extern constinit bool lost_workers;
extern constinit bool lost_cuda_driver;
}  // namespace detail

/// Whether this process is the fork of one that had used `loss`.
inline bool is_lost_in_fork(ForkLoss loss) noexcept {
  return loss == ForkLoss::workers ? detail::lost_workers : detail::lost_cuda_driver;
}

}  // namespace kiln
