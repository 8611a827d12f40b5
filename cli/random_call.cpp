#include "cli/random_call.hpp"

#include <cstring>
#include <memory>
#include <utility>

#include "registry/inspection/random_call_inputs.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"

namespace kiln::cli {
namespace {

PinnedPool& pinned_pool(Device device) {
  static PinnedPool pool(device);
  return pool;
}

/// A buffer with every element that a view may touch, and the view over it.
struct Buffer {
  Tensor elements;
  TensorView view;
};

Buffer make_buffer(const TensorView& like) {
  const MemoryExtent extent = memory_extent(like);
  const std::int64_t item_bytes = itemsize_bytes(like.dtype);
  Buffer buffer{empty({(extent.end_bytes - extent.begin_bytes) / item_bytes}, like.dtype, Device::cpu()), like};
  buffer.view.device = Device::cpu();
  buffer.view.data = buffer.elements.data_as<std::byte>() - extent.begin_bytes;
  return buffer;
}

Tensor placed(const Buffer& buffer, bool in_host_memory, Device device) {
  Tensor elements = buffer.elements;
  if (device.is_cuda() && in_host_memory) {
    elements = in_pinned_memory(elements, device);
  } else if (device.is_cuda()) {
    elements = to_device(elements, device);
  }
  TensorView view = buffer.view;
  view.device = elements.device();
  view.data = elements.data_as<std::byte>() +
              (static_cast<std::byte*>(buffer.view.data) - buffer.elements.data_as<std::byte>());
  return {view, elements.owner()};
}

}  // namespace

Tensor in_pinned_memory(const Tensor& tensor, Device device) {
  Tensor pinned = pinned_pool(device).empty(tensor.shape(), tensor.dtype());
  if (tensor.numel() > 0)
    std::memcpy(pinned.data(), tensor.data(),
                static_cast<std::size_t>(tensor.numel() * itemsize_bytes(tensor.dtype())));
  return pinned;
}

std::vector<Tensor> random_inputs(const OpSpec& spec, std::span<const std::optional<TensorView>> like,
                                  const Attributes& attributes, Device device, std::uint64_t seed) {
  std::vector<Buffer> buffers;
  std::vector<TensorView> views;
  for (const std::optional<TensorView>& view : like)
    views.push_back(buffers.emplace_back(view ? make_buffer(*view) : Buffer{}).view);
  const auto addressed =
      std::make_shared<std::vector<Tensor>>(fill_random_inputs(spec, views, attributes, seed, {.addressed = device}));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < like.size(); ++i) {
    if (!like[i]) {
      inputs.emplace_back();
      continue;
    }
    Tensor input = placed(buffers[i], device.is_cuda() && !like[i]->device.is_cuda(), device);
    if (input_spec(spec, i).points_to) {
      const auto owners =
          std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(input.owner(), addressed);
      input = {input.view(), owners};
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace kiln::cli
