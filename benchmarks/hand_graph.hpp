#pragma once

#include <functional>
#include <vector>

#include "runtime/stream.hpp"

/// A CUDA graph written with the driver's own calls: a chain of kernel nodes, one after the other. What Kiln's graph of
/// the same kernels is measured against.
class HandGraph {
 public:
  /// Of the kernels that `body` enqueues on `stream`. std::runtime_error naming the driver call that failed, and for
  /// work that is no kernel.
  HandGraph(kiln::Stream stream, const std::function<void()>& body);
  ~HandGraph();
  HandGraph(const HandGraph&) = delete;
  HandGraph& operator=(const HandGraph&) = delete;

  void launch() const;

 private:
  kiln::Stream stream_;
  void* recorded_ = nullptr;    ///< CUgraph that `body` was recorded into; its memory lives with it
  void* executable_ = nullptr;  ///< CUgraphExec of the graph by hand
};
