#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor.hpp"
#include "registry/plan/call.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// Whether values of the op's inputs are addresses (InputSpec::points_to).
bool holds_addresses(const OpSpec& spec);

/// What one address among a call's inputs names.
struct AddressedMemory {
  std::size_t input = 0;   ///< the number of the input that holds the address
  std::int64_t entry = 0;  ///< and its place there, in row-major order
  TensorView memory;
};

/// What the addresses of a call's inputs name, input by input. Waits for their device. UsageError(value) for an address
/// that is null, naming it.
std::vector<AddressedMemory> addressed_memory(const Call& call);

/// Writes addresses of new memory on `device`, filled with zeros, into those of a call's inputs that hold addresses;
/// these are on the CPU, of any strides. The memory is there as long as what is returned.
std::vector<Tensor> point_to_new_memory(const Call& call, Device device);

/// A call's inputs with what their addresses name replaced by copies, so that calling the op changes nothing of the
/// caller's.
struct AddressedCopies {
  std::vector<TensorView> inputs;          ///< the call's, with tables of the copies' addresses
  std::vector<Tensor> tables;              ///< on `device`
  std::vector<AddressedMemory> originals;  ///< what the call's own addresses name
  std::vector<Tensor> copies;              ///< of each of them, laid out alike, on `device`

  /// Brings the copies back to what the originals hold now.
  void restore(Stream stream) const;
};
/// UsageError as addressed_memory; DeviceError where memory is short. Nothing is copied for an op without addresses.
AddressedCopies copy_addressed(const Call& call, Device device);

}  // namespace kiln
