#include "registry/tuning/addressed_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// An input that holds addresses; null for another.
const TensorView* table(const Call& call, std::size_t input) {
  return call.input_spec(input).points_to ? call.input(input) : nullptr;
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

std::int64_t address_as_element(const TensorView& view) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(view.data));
}

}  // namespace

bool holds_addresses(const OpSpec& spec) {
  return std::ranges::any_of(spec.inputs, [](const InputSpec& input) { return static_cast<bool>(input.points_to); });
}

std::vector<AddressedMemory> addressed_memory(const Call& call) {
  std::vector<AddressedMemory> all;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorView* const addresses = table(call, i);
    if (addresses == nullptr) continue;
    const TensorView like = call.input_spec(i).points_to(call.seen_by_spec());
    const Tensor on_cpu = to_device(*addresses, Device::cpu());
    for (std::int64_t entry = 0; entry < on_cpu.numel(); ++entry) {
      TensorView memory = like;
      memory.device = addresses->device;
      memory.data = reinterpret_cast<void*>(static_cast<std::intptr_t>(on_cpu.data_as<std::int64_t>()[entry]));
      if (memory.data == nullptr && memory.numel() > 0)
        throw_value_error(fmt::format("op '{}': {}[{}] is a null address, expected that of {}", call.spec->name,
                                      tensor_label(*call.spec, i, 0), entry, describe(like)));
      all.push_back({i, entry, memory});
    }
  }
  return all;
}

std::vector<Tensor> point_to_new_memory(const Call& call, Device device) {
  std::vector<Tensor> memory;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorView* const addresses = table(call, i);
    if (addresses == nullptr) continue;
    const TensorView like = call.input_spec(i).points_to(call.seen_by_spec());
    for (std::int64_t entry = 0; entry < addresses->numel(); ++entry) {
      memory.push_back(empty_like(like, device));
      memset_bytes(as_bytes(memory.back()), 0, Stream::default_of(device));
      std::int64_t rest = entry, offset = 0;
      for (int axis = addresses->ndim() - 1; axis >= 0; rest /= addresses->shape[axis--])
        offset += rest % addresses->shape[axis] * addresses->strides[axis];
      static_cast<std::int64_t*>(addresses->data)[offset] = address_as_element(memory.back());
    }
  }
  return memory;
}

void AddressedCopies::restore(Stream stream) const {
  for (std::size_t i = 0; i < copies.size(); ++i)
    if (copies[i].numel() > 0) copy(as_bytes(copies[i]), as_bytes(originals[i].memory), stream);
}

AddressedCopies copy_addressed(const Call& call, Device device) {
  AddressedCopies result;
  result.inputs = call.inputs;
  if (!holds_addresses(*call.spec)) return result;
  result.originals = addressed_memory(call);
  for (const AddressedMemory& original : result.originals) result.copies.push_back(empty_like(original.memory, device));
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorView* const addresses = table(call, i);
    if (addresses == nullptr) continue;
    const Tensor on_cpu = empty(addresses->shape, DType::i64, Device::cpu());
    for (std::int64_t entry = 0; entry < on_cpu.numel(); ++entry)
      on_cpu.data_as<std::int64_t>()[entry] = address_as_element(result.copies[next++]);
    result.inputs[i] = result.tables.emplace_back(device.is_cuda() ? to_device(on_cpu, device) : on_cpu);
  }
  if (result.originals.empty()) return result;
  const Device source = result.originals.front().memory.device;
  const Stream stream = Stream::default_of(source.is_cuda() ? source : device);
  result.restore(stream);
  synchronize(stream);
  return result;
}

}  // namespace kiln
