#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/stream_handle.hpp"

namespace kiln {

/// Where a graph keeps what is allocated while it is recorded. It is ordinary device memory, allocated beside the
/// capture: memory nodes of the driver's would give a result another address at each replay of a graph that is launched
/// twice, and take it back when the graph goes. Lives as long as the graph or any tensor in it. Thread-safe.
class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
 public:
  /// A block on the stream's device for work of `stream`, which may be one that earlier work of that stream is done
  /// with: freed while the recording goes on, blocks serve the same stream again. DeviceError when memory is short.
  std::shared_ptr<void> allocate(std::int64_t size_bytes, Stream stream);
  /// From here on blocks that are freed stay as they are: replays write them.
  void close();
  /// Whether a byte is in memory of this graph.
  bool contains(const void* memory) const;
  std::int64_t size_bytes() const;

 private:
  struct Segment {
    std::shared_ptr<void> memory;
    Device device;
    std::int64_t size_bytes;
    std::int64_t used_bytes;
  };
  struct FreeBlock {
    std::byte* memory;
    std::int64_t size_bytes;
    void* stream;
  };
  struct Return;
  std::byte* reuse(std::int64_t& size_bytes, void* stream);
  std::byte* carve(std::int64_t size_bytes, Stream stream);

  mutable std::mutex mutex_;
  bool is_closed_ = false;
  std::vector<Segment> segments_;
  std::vector<FreeBlock> free_;
};

}  // namespace kiln
