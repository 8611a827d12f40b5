#include "registry/tuning/addressed_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

bool is_table(const OpSpec& spec, std::span<const TensorView> inputs, std::size_t input) {
  return input_spec(spec, input).points_to && !is_absent(inputs[input]);
}

/// The bytes from a view's first to its last, gaps between blocks included.
TensorView as_bytes(const TensorView& view) {
  const MemoryExtent extent = memory_extent(view);
  return dense_view(static_cast<std::byte*>(view.data) + extent.begin_bytes, DType::u8,
                    {extent.end_bytes - extent.begin_bytes}, view.device);
}

/// New memory that is laid out like `like`, gaps included.
Tensor empty_like(const TensorView& like, Device device) {
  const Tensor bytes = empty(as_bytes(like).shape, DType::u8, device);
  TensorView view = like;
  view.device = device;
  view.data = bytes.data_as<std::byte>() - memory_extent(like).begin_bytes;
  return {view, bytes.owner()};
}

std::int64_t address_of(const TensorView& view) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(view.data));
}

}  // namespace

bool holds_addresses(const OpSpec& spec) {
  return std::ranges::any_of(spec.inputs, [](const InputSpec& input) { return static_cast<bool>(input.points_to); });
}

std::vector<AddressedMemory> addressed_memory(const OpSpec& spec, std::span<const TensorView> inputs,
                                              const Attributes& attributes) {
  std::vector<AddressedMemory> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_table(spec, inputs, i)) continue;
    const TensorView like = input_spec(spec, i).points_to({inputs, {}, attributes});
    const Tensor table = to_device(inputs[i], Device::cpu());
    for (std::int64_t entry = 0; entry < table.numel(); ++entry) {
      TensorView memory = like;
      memory.device = inputs[i].device;
      memory.data = reinterpret_cast<void*>(static_cast<std::intptr_t>(table.data_as<std::int64_t>()[entry]));
      if (memory.data == nullptr && memory.numel() > 0)
        throw_value_error(fmt::format("op '{}': {}[{}] is a null address, expected that of {}", spec.name,
                                      tensor_label(spec, i, 0), entry, describe(like)));
      all.push_back({i, entry, memory});
    }
  }
  return all;
}

std::vector<Tensor> point_to_new_memory(const OpSpec& spec, std::span<const TensorView> inputs,
                                        const Attributes& attributes, Device device) {
  std::vector<Tensor> memory;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_table(spec, inputs, i)) continue;
    const TensorView like = input_spec(spec, i).points_to({inputs, {}, attributes});
    for (std::int64_t entry = 0; entry < inputs[i].numel(); ++entry) {
      memory.push_back(empty_like(like, device));
      memset_bytes(as_bytes(memory.back()), 0, Stream::default_of(device));
      std::int64_t rest = entry, offset = 0;
      for (int axis = inputs[i].ndim() - 1; axis >= 0; rest /= inputs[i].shape[axis--])
        offset += rest % inputs[i].shape[axis] * inputs[i].strides[axis];
      static_cast<std::int64_t*>(inputs[i].data)[offset] = address_of(memory.back());
    }
  }
  return memory;
}

void AddressedCopies::restore(Stream stream) const {
  for (std::size_t i = 0; i < copies.size(); ++i)
    if (copies[i].numel() > 0) copy(as_bytes(copies[i]), as_bytes(originals[i].memory), stream);
}

AddressedCopies copy_addressed(const OpSpec& spec, std::span<const TensorView> inputs, const Attributes& attributes,
                               Device device) {
  AddressedCopies result;
  result.inputs.assign(inputs.begin(), inputs.end());
  if (!holds_addresses(spec)) return result;
  result.originals = addressed_memory(spec, inputs, attributes);
  for (const AddressedMemory& original : result.originals) result.copies.push_back(empty_like(original.memory, device));
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_table(spec, inputs, i)) continue;
    const Tensor table = empty(inputs[i].shape, DType::i64, Device::cpu());
    for (std::int64_t entry = 0; entry < table.numel(); ++entry)
      table.data_as<std::int64_t>()[entry] = address_of(result.copies[next++]);
    result.inputs[i] = result.tables.emplace_back(device.is_cuda() ? to_device(table, device) : table);
  }
  if (result.originals.empty()) return result;
  const Device source = result.originals.front().memory.device;
  const Stream stream = Stream::default_of(source.is_cuda() ? source : device);
  result.restore(stream);
  synchronize(stream);
  return result;
}

}  // namespace kiln
