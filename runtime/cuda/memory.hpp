#pragma once

namespace kiln::cuda {

/// Tell of streams that Kiln makes, and of those that it is about to destroy: what a graph held is dropped when the
/// driver says so, which may be after the stream went on which it would be freed.
void note_stream_made(void* stream);
void note_stream_gone(void* stream) noexcept;

}  // namespace kiln::cuda
