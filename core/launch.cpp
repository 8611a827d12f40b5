#include "core/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/errors.hpp"

namespace kiln {
namespace {

int pointer_index_of_tensor(int tensor_index) {
  if (tensor_index < 0 || tensor_index >= kMaxTensors)
    throw InternalError(fmt::format("tensor index {} is outside 0 to {}", tensor_index, kMaxTensors - 1));
  return tensor_index;
}

int pointer_index_of_workspace(int workspace_index) {
  if (workspace_index < 0 || workspace_index >= kMaxWorkspaces)
    throw InternalError(fmt::format("workspace index {} is outside 0 to {}", workspace_index, kMaxWorkspaces - 1));
  return kMaxTensors + workspace_index;
}

}  // namespace

void ArgumentTemplate::add_slot(Slot slot) {
  if (slots_.size() >= static_cast<std::size_t>(kMaxArguments))
    throw InternalError(fmt::format("a kernel has more than {} parameters", kMaxArguments));
  slots_.push_back(slot);
}

void ArgumentTemplate::add_tensor(int tensor_index) {
  add_slot({pointer_index_of_tensor(tensor_index), 0});
}

void ArgumentTemplate::add_workspace(int workspace_index) {
  add_slot({pointer_index_of_workspace(workspace_index), 0});
}

std::span<const std::byte> ArgumentTemplate::value(int parameter_index) const noexcept {
  if (parameter_index < 0 || parameter_index >= size()) return {};
  const Slot& slot = slots_[static_cast<std::size_t>(parameter_index)];
  const bool is_map = std::any_of(tensor_maps_.begin(), tensor_maps_.end(),
                                  [&](const TensorMapSlot& map) { return map.parameter_index == parameter_index; });
  if (slot.pointer_index >= 0 || is_map) return {};
  return std::span(values_).subspan(static_cast<std::size_t>(slot.value_offset));
}

void ArgumentTemplate::add_tensor_map(const TensorMap& map) {
  const bool is_of_workspace = map.workspace_index >= 0;
  const int pointer_index =
      is_of_workspace ? pointer_index_of_workspace(map.workspace_index) : pointer_index_of_tensor(map.tensor_index);
  if (const std::string problem = tensor_map_problem(map); !problem.empty())
    throw InternalError(fmt::format("the tensor map of {} {} cannot be encoded: {}",
                                    is_of_workspace ? "workspace" : "tensor",
                                    is_of_workspace ? map.workspace_index : map.tensor_index, problem));
  if (tensor_maps_.size() >= static_cast<std::size_t>(kMaxTensorMaps))
    throw InternalError(fmt::format("a kernel has more than {} tensor maps", kMaxTensorMaps));
  const int parameter_index = size();
  add_slot({-1, 0});
  tensor_maps_.push_back({parameter_index, pointer_index, map});
}

void ArgumentTemplate::add_bytes(const void* bytes, std::size_t size, std::size_t alignment) {
  // The vector's memory is aligned this far and no further.
  if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
    throw InternalError(fmt::format("a kernel parameter aligned to {} bytes exceeds the {} that parameters get",
                                    alignment, __STDCPP_DEFAULT_NEW_ALIGNMENT__));
  const std::size_t offset = (values_.size() + alignment - 1) / alignment * alignment;
  add_slot({-1, static_cast<std::int32_t>(offset)});
  values_.resize(offset + size);
  std::memcpy(values_.data() + offset, bytes, size);
}

}  // namespace kiln
