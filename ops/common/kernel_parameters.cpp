#include "ops/common/kernel_parameters.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace kiln::common {

KernelParameters& KernelParameters::declare(std::string type) {
  launch_.parameter_types.push_back(std::move(type));
  return *this;
}

KernelParameters& KernelParameters::add_tensor(int tensor, std::string type) {
  if (tensor < 0)
    launch_.arguments.add_value(std::uintptr_t{0});
  else
    launch_.arguments.add_tensor(tensor);
  return declare(std::move(type));
}

KernelParameters& KernelParameters::written(int tensor, const ElementType& type) {
  return add_tensor(tensor, fmt::format("{}*", type.name()));
}

KernelParameters& KernelParameters::read(int tensor, const ElementType& type) {
  return add_tensor(tensor, fmt::format("const {}*", type.name()));
}

KernelParameters& KernelParameters::written_workspace(int workspace, const ElementType& type) {
  launch_.arguments.add_workspace(workspace);
  return declare(fmt::format("{}*", type.name()));
}

KernelParameters& KernelParameters::read_workspace(int workspace, const ElementType& type) {
  launch_.arguments.add_workspace(workspace);
  return declare(fmt::format("const {}*", type.name()));
}

KernelParameters& KernelParameters::tensor_map(const TensorMap& map) {
  launch_.arguments.add_tensor_map(map);
  return declare("kiln::tl::sm90::TensorMap");
}

}  // namespace kiln::common
