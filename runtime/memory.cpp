#include "runtime/memory.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/capture_turn.hpp"
#include "runtime/device_access.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/observers.hpp"
#include "runtime/recorded_transfer.hpp"
#include "runtime/recording.hpp"

namespace kiln {
namespace {

/// What an allocation may add to round its size up.
constexpr std::int64_t kMostPaddingBytes = std::int64_t{2} << 20;

std::int64_t dense_size_bytes(const Dims& shape, DType dtype) {
  const std::int64_t elements = num_elements(shape);
  if (elements > (std::numeric_limits<std::int64_t>::max() - kMostPaddingBytes) / itemsize_bytes(dtype))
    throw_value_error(fmt::format("a tensor of {} elements of {} is larger than any memory", elements, name(dtype)));
  return elements * itemsize_bytes(dtype);
}

std::size_t size_bytes(const TensorView& view) {
  return static_cast<std::size_t>(view.numel() * itemsize_bytes(view.dtype));
}

void require_dense(const TensorView& view, const char* role) {
  if (!view.is_contiguous())
    throw_value_error(
        fmt::format("the {} of a copy or fill must be dense and row-major; it is {}", role, describe(view)));
}

/// Copies bytes between any two devices; `stream` belongs to one of them when either is CUDA.
void copy_bytes(void* destination, Device destination_device, const void* source, Device source_device,
                std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  if (!destination_device.is_cuda() && !source_device.is_cuda()) {
    std::memmove(destination, source, bytes);
    return;
  }
  if (destination_device.is_cuda()) require_cuda_device(destination_device);
  if (source_device.is_cuda()) require_cuda_device(source_device);
  if (!stream.device.is_cuda() || (stream.device != destination_device && stream.device != source_device))
    throw_value_error(
        fmt::format("a copy from {} to {} was given a stream of {}; give one of the CUDA device that takes part",
                    to_string(source_device), to_string(destination_device), to_string(stream.device)));
  CudaBackend::copy(destination, destination_device, source, source_device, bytes, stream);
}

/// Work on the CPU runs at once, so a GPU's graph would not hold it.
[[noreturn]] void refuse_cpu_work(std::string_view what, Stream stream) {
  throw_value_error(fmt::format(
      "{} between tensors on the CPU was given a stream of {} that is being captured, and no graph of a GPU "
      "can hold it: do it before the capture, or after each launch",
      what, to_string(stream.device)));
}

/// The driver would make the host wait for a copy of pageable memory, which spoils a capture, or record where the
/// memory is staged.
void require_page_locked(const TensorView& view, Stream stream) {
  if (view.device.is_cuda()) return;
  try {
    device_pointer(view, stream.device);
  } catch (const UsageError& error) {
    throw UsageError(error.kind(), fmt::format("a copy cannot be captured: {}", error.what()));
  }
}

void record_copy(Recording& recording, const TensorView& destination, const TensorView& source, Stream stream) {
  if (stream.device.is_cuda()) {
    if (!destination.device.is_cuda() && !source.device.is_cuda()) refuse_cpu_work("a copy", stream);
    require_page_locked(destination, stream);
    require_page_locked(source, stream);
  }
  const auto turn = recording.lock_calls();
  if (stream.device.is_cuda() || destination.device.is_cuda() || source.device.is_cuda())
    copy_bytes(destination.data, destination.device, source.data, source.device, size_bytes(source), stream);
  recording.add(recorded_copy(destination, source));
}

/// Neither waiting nor reading makes sense where nothing runs.
void refuse_while_recording(Device device, const TensorView& source) {
  if (!is_observed() || !Recording::is_on_this_thread(device)) return;
  throw_value_error(
      fmt::format("to_device of {} cannot be part of a graph, and waits for the device, which nothing may while {} is "
                  "being captured: copy before the capture or after a launch, or record kiln::copy from and to "
                  "page-locked memory (PinnedPool)",
                  describe(source), to_string(device)));
}

/// Writes the elements of `source`, whose memory the CPU can read, to dense memory, axis by axis.
void gather(const TensorView& source, std::byte* destination) {
  const auto item_bytes = static_cast<std::size_t>(itemsize_bytes(source.dtype));
  const std::int64_t elements = source.numel();
  Dims index = source.shape;
  for (int axis = 0; axis < source.ndim(); ++axis) index[axis] = 0;
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::byte* item = static_cast<const std::byte*>(source.data) + offset * static_cast<std::int64_t>(item_bytes);
    std::memcpy(destination + static_cast<std::size_t>(i) * item_bytes, item, item_bytes);
    for (int axis = source.ndim() - 1; axis >= 0; --axis) {
      offset += source.strides[axis];
      if (++index[axis] < source.shape[axis]) break;
      offset -= source.strides[axis] * source.shape[axis];
      index[axis] = 0;
    }
  }
}

/// A dense CPU copy of a view with any strides: the bytes that it spans come over as they lie, and are put in order
/// here.
Tensor gather_to_cpu(const TensorView& source) {
  const ByteRange range = byte_range(source);
  const auto span_bytes = static_cast<std::size_t>(range.end - range.begin);
  TensorView reachable = source;
  std::vector<std::byte> staging;
  if (source.device.is_cuda()) {
    staging.resize(span_bytes);
    const Stream stream = Stream::default_of(source.device);
    copy_bytes(staging.data(), Device::cpu(), range.begin, source.device, span_bytes, stream);
    synchronize(stream);
    reachable.data = staging.data() + (static_cast<const std::byte*>(source.data) - range.begin);
  }
  Tensor dense = empty(source.shape, source.dtype, Device::cpu());
  gather(reachable, static_cast<std::byte*>(dense.data()));
  return dense;
}

}  // namespace

Tensor empty(const Dims& shape, DType dtype, Device device) {
  return empty(shape, dtype, Stream::default_of(device));
}

Tensor empty(const Dims& shape, DType dtype, Stream stream) {
  const std::int64_t wanted_bytes = dense_size_bytes(shape, dtype);
  if (stream.device.is_cuda()) require_cuda_device(stream.device);
  std::shared_ptr<void> owner;
  std::shared_ptr<Recording> recording;
  if (is_observed()) [[unlikely]]
    recording = Recording::of(stream);
  if (wanted_bytes > 0 && recording != nullptr) [[unlikely]] {
    owner = recording->memory().allocate(wanted_bytes, stream);
  } else if (wanted_bytes > 0) {
    owner = with_backend(stream.device.type, [&](auto backend) { return backend.allocate(wanted_bytes, stream); });
  }
  return Tensor(dense_view(owner.get(), dtype, shape, stream.device), owner);
}

void copy(const TensorView& destination, const TensorView& source, Stream stream) {
  if (destination.dtype != source.dtype || destination.shape != source.shape)
    throw_value_error(
        fmt::format("a copy needs the same shape and dtype on both sides; the destination is {}, the source is {}",
                    describe(destination), describe(source)));
  require_dense(destination, "destination");
  require_dense(source, "source");
  if (is_observed()) [[unlikely]]
    if (const auto recording = Recording::of_work(stream, "copy"))
      return record_copy(*recording, destination, source, stream);
  copy_bytes(destination.data, destination.device, source.data, source.device, size_bytes(source), stream);
}

Event copy_async(const TensorView& destination, const TensorView& source, Stream stream) {
  Event done(stream.device);
  copy(destination, source, stream);
  done.record(stream);
  return done;
}

Tensor to_device(const TensorView& source, Device device) {
  refuse_while_recording(source.device, source);
  refuse_while_recording(device, source);
  std::optional<DeviceWaitTurn> turn;  // to the end: the copy waits for the device's default stream
  if (source.device.is_cuda()) {
    require_cuda_device(source.device);
    turn.emplace(source.device);
    CudaBackend::synchronize_device(source.device);  // whatever stream may still write the memory
  }
  if (!source.is_contiguous()) {
    const Tensor dense = gather_to_cpu(source);
    return device.is_cuda() ? to_device(dense, device) : dense;
  }
  const Stream stream = Stream::default_of(device.is_cuda() ? device : source.device);
  Tensor result = empty(source.shape, source.dtype, device);
  copy_bytes(result.data(), device, source.data, source.device, size_bytes(source), stream);
  synchronize(stream);
  return result;
}

void memset_bytes(const TensorView& destination, std::uint8_t value, Stream stream) {
  require_dense(destination, "destination");
  std::shared_ptr<Recording> recording;
  if (is_observed()) [[unlikely]]
    recording = Recording::of_work(stream, "memset_bytes");
  const std::size_t bytes = size_bytes(destination);
  if (!destination.device.is_cuda()) {
    if (recording != nullptr) {
      if (stream.device.is_cuda()) refuse_cpu_work("a fill", stream);
      return recording->add(recorded_fill(destination, value));
    }
    if (bytes > 0) std::memset(destination.data, value, bytes);
    return;
  }
  require_cuda_device(destination.device);
  if (stream.device != destination.device)
    throw_value_error(
        fmt::format("a fill on {} was given a stream of {}", to_string(destination.device), to_string(stream.device)));
  std::unique_lock<std::mutex> turn;
  if (recording != nullptr) turn = recording->lock_calls();
  if (bytes > 0) CudaBackend::fill(destination.data, value, bytes, stream);
  if (recording != nullptr) recording->add(recorded_fill(destination, value));
}

}  // namespace kiln
