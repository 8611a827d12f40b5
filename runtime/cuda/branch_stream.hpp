#pragma once

#include <memory>

#include "runtime/stream.hpp"

namespace kiln::cuda {

/// One loan of a stream to a branch; see BranchStream.
class BranchLoan;

/// A stream that a branch of fork_join has to itself while this lives, from a pool of the process.
class BranchStream {
 public:
  /// A stream of `parent`'s device with `priority`. Never one that is being captured: a stream that was lent within a
  /// capture stays a part of it until the capture ends.
  BranchStream(Stream parent, int priority);
  /// Gives the stream back. It may have work left; what the next branch enqueues comes behind that.
  ~BranchStream();
  BranchStream(BranchStream&&) noexcept = default;
  BranchStream& operator=(BranchStream&&) = delete;

  Stream get() const noexcept;
  /// Work enqueued on the parent from now on starts after this stream's work so far.
  void join();
  /// The same after a failure, whose error is the news.
  void try_join() noexcept;

 private:
  std::shared_ptr<BranchLoan> loan_;
};

/// The loan of a stream that is lent now, or null.
std::shared_ptr<const BranchLoan> find_branch_loan(Stream stream);
/// Where memory is freed that was allocated on the lent stream: there while the branch lasts; once it was joined on its
/// parent, where the memory's later users are.
Stream stream_for_frees(const BranchLoan& loan) noexcept;

}  // namespace kiln::cuda
