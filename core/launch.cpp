#include "core/launch.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace kiln {
namespace {

void check_room(std::size_t slots) {
  if (slots >= static_cast<std::size_t>(kMaxArguments))
    throw InternalError(fmt::format("a kernel has more than {} parameters", kMaxArguments));
}

}  // namespace

void ArgumentTemplate::add_tensor(int tensor_index) {
  if (tensor_index < 0 || tensor_index >= kMaxTensors)
    throw InternalError(fmt::format("tensor index {} is outside 0 to {}", tensor_index, kMaxTensors - 1));
  add_pointer(tensor_index);
}

void ArgumentTemplate::add_workspace(int workspace_index) {
  if (workspace_index < 0 || workspace_index >= kMaxWorkspaces)
    throw InternalError(fmt::format("workspace index {} is outside 0 to {}", workspace_index, kMaxWorkspaces - 1));
  add_pointer(kMaxTensors + workspace_index);
}

void ArgumentTemplate::add_pointer(int pointer_index) {
  check_room(slots_.size());
  slots_.push_back({pointer_index, 0});
}

void ArgumentTemplate::add_bytes(const void* bytes, std::size_t size, std::size_t alignment) {
  check_room(slots_.size());
  // The vector's memory is aligned this far and no further.
  if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
    throw InternalError(fmt::format("a kernel parameter aligned to {} bytes exceeds the {} that parameters get",
                                    alignment, __STDCPP_DEFAULT_NEW_ALIGNMENT__));
  const std::size_t offset = (values_.size() + alignment - 1) / alignment * alignment;
  values_.resize(offset + size);
  std::memcpy(values_.data() + offset, bytes, size);
  slots_.push_back({-1, static_cast<std::int32_t>(offset)});
}

}  // namespace kiln
