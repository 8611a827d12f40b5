#pragma once

#include <cstdint>
#include <memory>

#include "runtime/recording.hpp"

namespace kiln {

/// A copy between dense tensors of one size as a graph's call. On a GPU the driver holds the copy itself.
std::shared_ptr<const RecordedCall> recorded_copy(const TensorView& destination, const TensorView& source);
/// memset_bytes as a graph's call.
std::shared_ptr<const RecordedCall> recorded_fill(const TensorView& destination, std::uint8_t value);

}  // namespace kiln
