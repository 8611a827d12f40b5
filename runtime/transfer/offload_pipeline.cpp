#include "runtime/transfer/offload_pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "runtime/event.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

using Direction = OffloadTensor::Direction;

/// Where tensors start in a buffer: what every kernel's widest access, and the copy engine, like best.
constexpr std::int64_t kAlignmentBytes = 256;

/// A chunk's tensors in its two buffers: what is loaded in one, what is only stored in the other.
struct ChunkLayout {
  std::vector<std::int64_t> offsets_bytes;  ///< by tensor, in its buffer
  std::int64_t input_bytes = 0, output_bytes = 0;
};

ChunkLayout layout_of(const OffloadChunk& chunk) {
  ChunkLayout layout;
  for (const OffloadTensor& tensor : chunk) {
    std::int64_t& end_bytes = tensor.direction == Direction::store ? layout.output_bytes : layout.input_bytes;
    layout.offsets_bytes.push_back(end_bytes);
    const std::int64_t size_bytes = tensor.host.numel() * itemsize_bytes(tensor.host.dtype);
    end_bytes += (size_bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
  }
  return layout;
}

void validate(const OffloadTensor& tensor, Device device) {
  if (tensor.host.device.is_cuda())
    throw_value_error(fmt::format("expected a tensor in CPU memory, got {}", describe(tensor.host)));
  if (!tensor.host.is_contiguous())
    throw_value_error(fmt::format("expected a dense, row-major tensor, got {}", describe(tensor.host)));
  device_pointer(tensor.host, device);
}

void validate(std::span<const OffloadChunk> chunks, Device device) {
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
    for (std::size_t i = 0; i < chunks[chunk].size(); ++i) try {
        validate(chunks[chunk][i], device);
      } catch (const UsageError& error) {
        throw UsageError(error.kind(), fmt::format("tensor {} of chunk {}: {}", i, chunk, error.what()));
      }
}

/// Waits without complaint: what went wrong on the device is told by whoever uses it next.
template <typename Work>
void settle(const Work& work) noexcept {
  try {
    work();
  } catch (const Error&) {
    return;
  }
}

}  // namespace

struct OffloadPipeline::State {
  struct Buffers {
    Tensor input, output;
  };

  State(Device on, int chunks_on_device, Schedule order, bool notes_times)
      : device(on), depth(chunks_on_device), schedule(std::move(order)), is_timed(notes_times) {}

  Stream queue(OffloadStage stage, Stream compute) const {
    if (stage == OffloadStage::load) return loads;
    return stage == OffloadStage::store ? stores.get() : compute;
  }

  static std::size_t place_of(OffloadMark mark) {
    return static_cast<std::size_t>(mark.chunk) * 3 + static_cast<std::size_t>(mark.stage);
  }
  Event& event(OffloadMark mark) { return marks[place_of(mark)]; }

  /// Buffers and events for `layouts`, kept from run to run.
  void prepare(const std::vector<ChunkLayout>& layouts) {
    std::int64_t input_bytes = 0, output_bytes = 0;
    for (const ChunkLayout& layout : layouts) {
      input_bytes = std::max(input_bytes, layout.input_bytes);
      output_bytes = std::max(output_bytes, layout.output_bytes);
    }
    const auto slots = static_cast<std::size_t>(std::min(depth, static_cast<int>(layouts.size())));
    if (buffers.size() < slots) buffers.resize(slots);
    for (std::size_t slot = 0; slot < slots; ++slot) {
      grow(buffers[slot].input, input_bytes);
      grow(buffers[slot].output, output_bytes);
    }
    while (marks.size() < 3 * layouts.size()) marks.emplace_back(device, is_timed);
    while (is_timed && starts.size() < marks.size()) starts.emplace_back(device, true);
  }

  void grow(Tensor& buffer, std::int64_t size_bytes) {
    if (buffer.numel() >= size_bytes && buffer.data() != nullptr) return;
    if (size_bytes == 0) return;
    left.synchronize();  // the old memory may be in use by an earlier run
    buffer = Tensor();   // before the new, so that both need not fit
    buffer = empty({size_bytes}, DType::u8, loads);
    // Other streams may use the memory from here on, whatever they wait for.
    synchronize(loads);
  }

  std::vector<Tensor> tensors_of(const OffloadChunk& chunk, const ChunkLayout& layout, std::int64_t index) const {
    const Buffers& slot = buffers[static_cast<std::size_t>(index % depth)];
    std::vector<Tensor> on_device;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const Tensor& buffer = chunk[i].direction == Direction::store ? slot.output : slot.input;
      void* data = buffer.data_as<std::byte>() + layout.offsets_bytes[i];
      on_device.emplace_back(dense_view(data, chunk[i].host.dtype, chunk[i].host.shape, device), buffer.owner());
    }
    return on_device;
  }

  void perform(const OffloadStep& step, const OffloadChunk& chunk, const std::vector<Tensor>& on_device,
               const Compute& compute, Stream stream) {
    const Stream queue_of_step = queue(step.mark.stage, stream);
    for (const OffloadMark& earlier : step.after) event(earlier).wait(queue_of_step);
    if (is_timed) starts[place_of(step.mark)].record(queue_of_step);
    switch (step.mark.stage) {
      case OffloadStage::load:
        for (std::size_t i = 0; i < chunk.size(); ++i)
          if (chunk[i].direction != Direction::store) copy(on_device[i], chunk[i].host, queue_of_step);
        break;
      case OffloadStage::compute:
        compute(step.mark.chunk, on_device, stream);
        break;
      case OffloadStage::store:
        for (std::size_t i = 0; i < chunk.size(); ++i)
          if (chunk[i].direction != Direction::load) copy(chunk[i].host, on_device[i], queue_of_step);
        break;
    }
    event(step.mark).record(queue_of_step);
    if (is_timed) performed.push_back(step.mark);
  }

  void enqueue(std::span<const OffloadChunk> chunks, const std::vector<ChunkLayout>& layouts, const Compute& compute,
               Stream stream) {
    performed.clear();
    left.wait(stream);  // the run before may have been on another stream
    entered.record(stream);
    entered.wait(loads);
    entered.wait(stores);
    for (const OffloadStep& step : schedule(chunks, depth)) {
      const auto chunk = static_cast<std::size_t>(step.mark.chunk);
      perform(step, chunks[chunk], tensors_of(chunks[chunk], layouts[chunk], step.mark.chunk), compute, stream);
    }
    stored.record(stores);
    stored.wait(stream);
    left.record(stream);
  }

  Device device;
  int depth;
  Schedule schedule;
  bool is_timed;
  OwnedStream loads{device}, stores{device};
  Event entered{device, is_timed}, left{device};  ///< marks on the caller's stream around a run
  Event stored{device};                           ///< the last result is in CPU memory
  std::vector<Event> marks;                       ///< three per chunk: load, compute, store
  std::vector<Event> starts;                      ///< where timed, of the same
  std::vector<OffloadMark> performed;             ///< where timed, of the last run
  std::vector<Buffers> buffers;                   ///< by slot; freed before the streams are
};

OffloadPipeline::OffloadPipeline(Device device, int depth, Schedule schedule, bool is_timed) {
  if (depth < 1) throw_value_error(fmt::format("an offload pipeline of depth {}; expected 1 or more", depth));
  state_ = std::make_unique<State>(device, depth, std::move(schedule), is_timed);
}

OffloadPipeline::~OffloadPipeline() {
  settle([&] { state_->left.synchronize(); });
}

void OffloadPipeline::run(std::span<const OffloadChunk> chunks, const Compute& compute, Stream stream) {
  if (stream.device != state_->device)
    throw_value_error(fmt::format("an offload pipeline of {} was given a stream of {}", to_string(state_->device),
                                  to_string(stream.device)));
  if (is_capturing(stream))
    throw_value_error(
        "an offload pipeline cannot be recorded into a graph; capture what its callback launches and launch that graph "
        "in the callback");
  validate(chunks, state_->device);
  std::vector<ChunkLayout> layouts;
  for (const OffloadChunk& chunk : chunks) layouts.push_back(layout_of(chunk));
  state_->prepare(layouts);
  try {
    state_->enqueue(chunks, layouts, compute, stream);
  } catch (...) {
    for (const Stream queue : {state_->loads.get(), stream, state_->stores.get()}) settle([&] { synchronize(queue); });
    throw;
  }
}

std::vector<OffloadSpan> OffloadPipeline::spans() const {
  if (!state_->is_timed)
    throw_value_error("an offload pipeline notes when its stages ran only where it was made to be timed");
  std::vector<OffloadSpan> spans;
  for (const OffloadMark& mark : state_->performed) {
    const Event& end = state_->event(mark);
    end.synchronize();
    spans.push_back(
        {mark, elapsed_us(state_->entered, state_->starts[State::place_of(mark)]), elapsed_us(state_->entered, end)});
  }
  return spans;
}

}  // namespace kiln
