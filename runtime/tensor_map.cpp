#include "runtime/tensor_map.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/errors.hpp"
#include "runtime/backend.hpp"

namespace kiln {
namespace {

void* moved(void* pointer, std::int64_t offset_bytes) noexcept {
  return static_cast<std::byte*>(pointer) + offset_bytes;
}

/// For memory that is not there yet. Nothing is read from it: the first launch puts another address in its place.
void* stand_in() noexcept {
  return reinterpret_cast<void*>(std::uintptr_t{1} << 20);
}

}  // namespace

TensorMapSet::TensorMapSet(std::span<const ArgumentTemplate::TensorMapSlot> slots, void* const* data, Device device)
    : device_(device) {
  if (slots.empty()) return;
  if (!device.is_cuda())
    throw InternalError("a kernel on the CPU was given a tensor map; only variants for sm_90 and newer have them");
  const CurrentDevice current(device);
  for (const auto& [parameter_index, pointer_index, map] : slots) {
    void* const pointer = data[pointer_index];
    if (!takes_tensor_map(pointer))
      throw InternalError(fmt::format(
          "tensor {} at {} has a tensor map, whose memory starts at a multiple of {} bytes; the variant should not "
          "serve this call (takes_tensor_map)",
          map.tensor_index, pointer, kTensorMapAlignmentBytes));
    Entry& entry = entries_.emplace_back();
    entry.address = pointer == nullptr ? stand_in() : moved(pointer, map.offset_bytes);
    entry.offset_bytes = map.offset_bytes;
    entry.parameter_index = parameter_index;
    entry.pointer_index = pointer_index;
    CudaBackend::encode_tensor_map(&entry.encoded, map, entry.address);
  }
}

void TensorMapSet::bind(void* const* data, Storage& storage, void** parameters) const {
  std::optional<CurrentDevice> current;
  EncodedTensorMap* copy = storage.data();
  for (const Entry& entry : entries_) {
    void* const address = moved(data[entry.pointer_index], entry.offset_bytes);
    const EncodedTensorMap* encoded = &entry.encoded;
    if (address != entry.address) {
      if (!current.has_value()) current.emplace(device_);
      *copy = entry.encoded;
      CudaBackend::replace_address(copy, address);
      encoded = copy++;
    }
    parameters[entry.parameter_index] = const_cast<EncodedTensorMap*>(encoded);
  }
}

}  // namespace kiln
