#include "registry/dispatch/address_check.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "runtime/memory.hpp"
#include "runtime/memory_location.hpp"

namespace kiln {
namespace {

void check_memory_of(const std::string& entry, const void* address, const TensorView& memory, Device gpu) {
  const std::int64_t wanted_bytes = memory_extent(memory).end_bytes;
  const std::int64_t found_bytes = gpu_bytes_at(address, wanted_bytes, gpu);
  if (found_bytes >= wanted_bytes) return;
  throw_value_error(fmt::format("{} is {}, where {} has {}; expected the address of {}, {} in all", entry, address,
                                to_string(gpu), found_bytes == 0 ? "no memory" : format_bytes(found_bytes),
                                describe(memory), format_bytes(wanted_bytes)));
}

/// A table of addresses, dense in the host's memory. Waits for `stream` and nothing else of a GPU: other threads may be
/// capturing.
Tensor on_host(const TensorView& table, Stream stream) {
  if (!stream.device.is_cuda()) return table.is_contiguous() ? Tensor(table, nullptr) : to_device(table, Device::cpu());
  const MemoryExtent extent = memory_extent(table);
  const Dims size{extent.end_bytes - extent.begin_bytes};
  const Tensor bytes = empty(size, DType::u8, Device::cpu());
  copy(bytes, dense_view(static_cast<std::byte*>(table.data) + extent.begin_bytes, DType::u8, size, table.device),
       stream);
  synchronize(stream);
  TensorView copied = table;
  copied.data = bytes.data_as<std::byte>() - extent.begin_bytes;
  copied.device = Device::cpu();
  return to_device(copied, Device::cpu());
}

}  // namespace

void check_addresses(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  const bool on_gpu = stream.device.is_cuda();
  if (on_gpu && !plan.check) return;
  for (const auto& [tensor, memory] : plan.tables) {
    if (memory.numel() == 0) continue;
    const Tensor copied = on_host(*tensors[tensor], stream);
    for (std::int64_t i = 0; i < copied.numel(); ++i) {
      const auto* const address =
          reinterpret_cast<const void*>(static_cast<std::intptr_t>(copied.data_as<std::int64_t>()[i]));
      const auto entry = [&] {
        return fmt::format("op '{}': {}[{}]", plan.spec->name, tensor_label(*plan.spec, tensor, plan.outputs.size()),
                           i);
      };
      if (address == nullptr)
        throw_value_error(fmt::format("{} is a null address, expected that of {}", entry(), describe(memory)));
      if (on_gpu) check_memory_of(entry(), address, memory, stream.device);
    }
  }
}

}  // namespace kiln
