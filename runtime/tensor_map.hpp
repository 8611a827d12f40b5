#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/launch.hpp"

namespace kiln {

/// A tensor map as the hardware reads it.
struct alignas(128) EncodedTensorMap {
  std::array<std::byte, 128> bytes;
};

/// The tensor maps among one kernel's parameters, encoded once for a plan. Immutable, so that threads share it.
class TensorMapSet {
 public:
  /// Room for the maps of one launch whose addresses are not the set's own; left uninitialised.
  using Storage = std::array<EncodedTensorMap, kMaxTensorMaps>;

  TensorMapSet() = default;
  /// Encodes `slots` for `device`. `data` is as ArgumentTemplate::bind takes it: the pointers that launches are likely
  /// to come with, or null. InternalError where a pointer or the device takes no tensor map, DeviceError when the
  /// driver refuses one.
  TensorMapSet(std::span<const ArgumentTemplate::TensorMapSlot> slots, void* const* data, Device device);

  bool empty() const noexcept { return entries_.empty(); }

  /// Points `parameters[i]`, for each parameter i that is a map, to the map over `data`'s address: the set's own where
  /// it has that address, otherwise a copy in `storage`, which must outlive the launch call. Neither locks nor
  /// allocates. Every pointer is a multiple of kTensorMapAlignmentBytes. DeviceError.
  void bind(void* const* data, Storage& storage, void** parameters) const;

 private:
  struct Entry {
    EncodedTensorMap encoded;
    void* address;
    std::int64_t offset_bytes;
    int parameter_index;
    int pointer_index;
  };
  Device device_;
  std::vector<Entry> entries_;
};

}  // namespace kiln
