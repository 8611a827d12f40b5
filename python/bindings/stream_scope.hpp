#pragma once

#include <optional>

#include "runtime/stream.hpp"

namespace kiln::python {

/// Where calls of this thread run that are given no stream, while it lives.
class StreamScope {
 public:
  /// `is_torchs`: torch's own current stream is set to it as well, and may be another by the time of a call.
  StreamScope(Stream stream, bool is_torchs);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  /// The innermost of this thread on `device`.
  static std::optional<Stream> current(Device device, bool for_torch) noexcept;
};

}  // namespace kiln::python
